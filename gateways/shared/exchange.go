package shared

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// What an exchange can end with. The texts quote nothing that was sent or received.
var (
	ErrTooBig   = errors.New("the answer is larger than the limit")
	ErrRedirect = errors.New("the answer is a redirect, which is never followed")
	ErrNoAnswer = errors.New("no usable answer")

	// ErrCapturesAtOnce refuses a payment that is to be captured later, where the gateway has no way to do that.
	ErrCapturesAtOnce = errors.New("this gateway captures at once: money cannot be held and captured later")
)

// Transport makes the connections of one account. The headers of an answer are waited for as long as timeout.
func Transport(timeout time.Duration) *http.Transport {
	dial := &net.Dialer{Timeout: min(timeout, 5*time.Second)}
	return &http.Transport{
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
}

// Client sends over a transport, follows no redirect, and bounds a whole exchange by timeout; zero leaves that to the context.
func Client(over http.RoundTripper, timeout time.Duration) *http.Client {
	return &http.Client{
		Transport:     over,
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Redirects reports an answer that points elsewhere.
func Redirects(res *http.Response) bool { return res.StatusCode >= 300 && res.StatusCode < 400 }

// Body reads an answer whole, up to limit bytes. A longer one is an error and is not cut: a cut answer could still parse.
func Body(res *http.Response, limit int) ([]byte, error) {
	if Redirects(res) {
		return nil, ErrRedirect
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, int64(limit)+1))
	switch {
	case err != nil:
		return nil, err
	case len(raw) > limit:
		return nil, ErrTooBig
	}
	return raw, nil
}

// PlainCause keeps what a log may show of a failed exchange. Errors of net/http and of SDKs quote addresses, answers and messages,
// so only known sentinels - these, and the gateway's own - and network errors pass.
func PlainCause(err error, own ...error) error {
	for _, known := range append([]error{
		context.Canceled, context.DeadlineExceeded, ErrTooBig, ErrRedirect, io.ErrUnexpectedEOF, io.EOF,
	}, own...) {
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
	return ErrNoAnswer
}
