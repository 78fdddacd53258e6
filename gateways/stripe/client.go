package stripe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/form"

	"orderflow/internal/secret"
)

// maxAnswer bounds what is read of one answer: an intent is a few kB, a page of a hundred below 1 MB.
const maxAnswer = 4 << 20

var (
	errNoKey    = errors.New("a write without a usable idempotency key was about to be sent")
	errFrozen   = errors.New("the stored request is not a form that is sent back byte-identical")
	errTooBig   = errors.New("the answer is larger than the limit")
	errRedirect = errors.New("the answer is a redirect, which is never followed")
	errNoAnswer = errors.New("no usable answer")
)

// client is the only place that sends. It puts one request on the wire per call.
type client struct {
	backend stripego.Backend
	key     secret.Value
	idle    func() // closes kept connections
}

func newClient(base string, key secret.Value, timeout time.Duration) *client {
	dial := &net.Dialer{Timeout: min(timeout, 5*time.Second)}
	inner := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dial.DialContext,
		TLSHandshakeTimeout:   min(timeout, 5*time.Second),
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          64,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       30 * time.Second,
		ResponseHeaderTimeout: timeout,
		DisableCompression:    true, // a small compressed answer cannot become a large one
	}
	return &client{
		key:  key,
		idle: inner.CloseIdleConnections,
		backend: stripego.GetBackendWithConfig(stripego.APIBackend, &stripego.BackendConfig{
			URL: stripego.String(base),
			HTTPClient: &http.Client{
				Transport:     &wire{inner},
				Timeout:       timeout,
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			},
			MaxNetworkRetries: stripego.Int64(0), // repeating belongs to the caller
			EnableTelemetry:   stripego.Bool(false),
			LeveledLogger:     &stripego.LeveledLogger{Level: stripego.LevelNull}, // the SDK would log bodies
		}),
	}
}

// write sends one frozen form under its key. The key is checked here because the SDK invents one where it is missing,
// and a write under an invented key can happen twice.
func (c *client) write(ctx context.Context, path, key string, frozen []byte, into stripego.LastResponseSetter) error {
	if !usableKey(key) {
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

// usableKey refuses what the SDK or HTTP would change on the way: the key on the wire must be the stored one.
func usableKey(key string) bool {
	if key == "" || len(key) > 255 {
		return false
	}
	return !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
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
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		_ = res.Body.Close()
		return nil, errRedirect // the SDK takes anything below 400 for success
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
		return 0, errTooBig
	}
	if int64(len(p)) > c.left+1 {
		p = p[:c.left+1]
	}
	n, err := c.body.Read(p)
	c.left -= int64(n)
	if c.left < 0 {
		return n, errTooBig
	}
	return n, err
}

func (c *capped) Close() error { return c.body.Close() }

// plainCause keeps what a log may show of a transport error. The SDK's own errors quote answers and messages, and
// net/http's quote what the other side sent, so only known sentinels and network errors pass.
func plainCause(err error) error {
	for _, known := range []error{
		context.Canceled, context.DeadlineExceeded, errNoKey, errFrozen, errTooBig, errRedirect,
		io.ErrUnexpectedEOF, io.EOF,
	} {
		if errors.Is(err, known) {
			return known
		}
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return context.DeadlineExceeded
	}
	return errNoAnswer
}
