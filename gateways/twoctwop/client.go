package twoctwop

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"orderflow/gateways/shared"
)

// maxAnswer bounds what is read of one answer: they are a few kB.
const maxAnswer = 1 << 20

// maxKey bounds an idempotency key: 2C2P has no key header: keys stay with us and prove that a write has a stored operation behind it.
const maxKey = 255

var (
	errNoKey     = errors.New("a write without an idempotency key was about to be sent")
	errFrozen    = errors.New("the stored request is not one that this gateway has planned")
	errMerchant  = errors.New("the stored request is for another merchant ID than the one configured now")
	errNoToken   = errors.New("the payment token of the prepare is missing, so nothing can be sent")
	errOtherID   = errors.New("the stored request is about another payment than the operation")
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
	transport := shared.Transport(timeout)
	return &client{
		idle: transport.CloseIdleConnections,
		http: shared.Client(transport, timeout),
	}
}

func (c *client) post(ctx context.Context, address, contentType string, body []byte) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return reply{}, shared.ErrNoAnswer
	}
	// Without GetBody net/http cannot send the request a second time when a kept connection turns out to be dead.
	req.GetBody = nil
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", contentType)
	res, err := c.http.Do(req)
	if err != nil {
		return reply{}, shared.PlainCause(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := shared.Body(res, maxAnswer)
	if err != nil {
		return reply{}, shared.PlainCause(err)
	}
	return reply{status: res.StatusCode, header: res.Header, body: raw}, nil
}
