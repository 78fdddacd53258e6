package stripe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"

	"orderflow/gateways/shared"
	"orderflow/internal/secret"
)

// maxAnswer bounds what is read of one answer: an intent is a few kB, a page of a hundred below 1 MB.
const maxAnswer = 4 << 20

// maxKey bounds an idempotency key: Stripe takes no longer one.
const maxKey = 255

var (
	errNoKey  = errors.New("a write without a usable idempotency key was about to be sent")
	errFrozen = errors.New("the stored request is not a form that is sent back byte-identical")
)

// client is the only place that sends. It puts one request on the wire per call.
type client struct {
	backend stripego.Backend
	key     secret.Value
	idle    func() // closes kept connections
}

func newClient(base string, key secret.Value, timeout time.Duration) *client {
	inner := shared.Transport(timeout)
	return &client{
		key:  key,
		idle: inner.CloseIdleConnections,
		backend: stripego.GetBackendWithConfig(stripego.APIBackend, &stripego.BackendConfig{
			URL:               stripego.String(base),
			HTTPClient:        shared.Client(&wire{inner}, timeout),
			MaxNetworkRetries: stripego.Int64(0), // repeating belongs to the caller
			EnableTelemetry:   stripego.Bool(false),
			LeveledLogger:     &stripego.LeveledLogger{Level: stripego.LevelNull}, // the SDK would log bodies
		}),
	}
}

// write sends one frozen form under its key. The key is checked here because the SDK invents one where it is missing,
// and a write under an invented key can happen twice.
func (c *client) write(ctx context.Context, path, key string, frozen []byte, into stripego.LastResponseSetter) error {
	if !shared.UsableKey(key, maxKey) {
		return errNoKey
	}
	fields, err := thaw(frozen)
	if err != nil {
		return err
	}
	params := &stripego.Params{Context: ctx, IdempotencyKey: stripego.String(key)}
	return c.backend.CallRaw(http.MethodPost, path, c.key.Reveal(), fields, params, into)
}

// read sends one GET.
func (c *client) read(ctx context.Context, path string, fields *form.Values, into stripego.LastResponseSetter) error {
	return c.backend.CallRaw(http.MethodGet, path, c.key.Reveal(), fields, &stripego.Params{Context: ctx}, into)
}

// thaw reads a frozen body back into the SDK's ordered form, and proves that encoding it again gives the same bytes.
func thaw(frozen []byte) (*form.Values, error) {
	fields := &form.Values{}
	for pair := range strings.SplitSeq(string(frozen), "&") {
		k, v, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, errFrozen
		}
		key, err := url.QueryUnescape(k)
		if err != nil {
			return nil, errFrozen
		}
		value, err := url.QueryUnescape(v)
		if err != nil {
			return nil, errFrozen
		}
		fields.Add(key, value)
	}
	if len(frozen) == 0 || fields.Encode() != string(frozen) {
		return nil, errFrozen
	}
	return fields, nil
}

// wire is the last step before the network. It exists for what the SDK and net/http do unasked.
type wire struct{ inner http.RoundTripper }

// RoundTrip sends the request once. net/http silently sends a request again when a kept connection breaks, if the request
// has an Idempotency-Key and a body it can rewind; without GetBody it cannot. A body of known length also goes out whole
// instead of chunked.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	once := r.Clone(r.Context())
	once.Header.Del("X-Stripe-Client-User-Agent") // it carries this machine's name and kernel
	once.Body, once.GetBody, once.ContentLength = nil, nil, 0
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("read own request body: %w", err)
		}
		if len(body) > 0 {
			once.Body, once.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
	}
	res, err := w.inner.RoundTrip(once)
	if err != nil {
		return nil, err
	}
	if shared.Redirects(res) {
		_ = res.Body.Close()
		return nil, shared.ErrRedirect // the SDK takes anything below 400 for success
	}
	res.Body = &capped{body: res.Body, left: maxAnswer}
	return res, nil
}

// capped fails a body that is longer than the limit instead of cutting it: a cut answer could still parse.
type capped struct {
	body io.ReadCloser
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left < 0 {
		return 0, shared.ErrTooBig
	}
	if int64(len(p)) > c.left+1 {
		p = p[:c.left+1]
	}
	n, err := c.body.Read(p)
	c.left -= int64(n)
	if c.left < 0 {
		return n, shared.ErrTooBig
	}
	return n, err
}

func (c *capped) Close() error { return c.body.Close() }
