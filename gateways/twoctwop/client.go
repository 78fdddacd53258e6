package twoctwop

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// maxAnswer bounds what is read of one answer: they are a few kB.
const maxAnswer = 1 << 20

var (
	errNoKey     = errors.New("a write without an idempotency key was about to be sent")
	errFrozen    = errors.New("the stored request is not one that this gateway has planned")
	errMerchant  = errors.New("the stored request is for another merchant ID than the one configured now")
	errNoToken   = errors.New("the payment token of the prepare is missing, so nothing can be sent")
	errOtherID   = errors.New("the stored request is about another payment than the operation")
	errTooBig    = errors.New("the answer is larger than the limit")
	errRedirect  = errors.New("the answer is a redirect, which is never followed")
	errNoAnswer  = errors.New("no usable answer")
	errUnsigned  = errors.New("an answer that must be signed is not")
	errSignature = errors.New("the answer's signature is wrong")
)

// ours are the errors of requests that never left.
var ours = []error{errNoKey, errFrozen, errMerchant, errNoToken, errOtherID}

// client is the only place that sends. It puts one request on the wire per call.
type client struct {
	http *http.Client
	idle func() // closes kept connections
}

// reply is what came back, undecoded.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func newClient(timeout time.Duration) *client {
	dial := &net.Dialer{Timeout: min(timeout, 5*time.Second)}
	transport := &http.Transport{
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
		idle: transport.CloseIdleConnections,
		http: &http.Client{
			Transport:     transport,
			Timeout:       timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (c *client) post(ctx context.Context, address, contentType string, body []byte) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return reply{}, errNoAnswer
	}
	// Without GetBody net/http cannot send the request a second time when a kept connection turns out to be dead.
	req.GetBody = nil
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", contentType)
	res, err := c.http.Do(req)
	if err != nil {
		return reply{}, plainCause(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return reply{}, errRedirect
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return reply{}, plainCause(err)
	}
	if len(raw) > maxAnswer {
		return reply{}, errTooBig // a cut answer could still parse
	}
	return reply{status: res.StatusCode, header: res.Header, body: raw}, nil
}

// usableKey refuses what no store of ours makes. 2C2P has no key header; the key stays with us and proves that the write
// has a stored operation behind it.
func usableKey(key string) bool {
	return key != "" && len(key) <= 255 && !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
}

// plainCause keeps what a log may show of a transport error: net/http's errors quote addresses and what the other side sent.
func plainCause(err error) error {
	for _, known := range []error{context.Canceled, context.DeadlineExceeded, io.ErrUnexpectedEOF, io.EOF} {
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
