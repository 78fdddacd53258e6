package omise

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	omisego "github.com/omise/omise-go"
	"github.com/omise/omise-go/operations"

	"orderflow/gateways/shared"
	"orderflow/internal/secret"
)

// maxAnswer bounds what is read of one answer: a charge is a few kB, a page of a hundred below 1 MB.
const maxAnswer = 4 << 20

// maxKey bounds an idempotency key: Omise takes none, so keys stay with us, and a write without one is a bug.
const maxKey = 255

var (
	errNoKey  = errors.New("a write without an idempotency key was about to be sent")
	errFrozen = errors.New("the stored request is not a charge that is sent back byte-identical")
)

// client is the only place that sends. It puts one request on the wire per call.
//
// omise-go makes the requests: paths, bodies, version and credentials are its own. It does not send them, because its
// Do has no time-out, reads without a bound, follows redirects and hides the answer's headers, and because its context
// and extra headers belong to the client, so that one call could leave under another's. The SDK client below is never
// changed after newClient, and a request that is built from it shares nothing with another one.
type client struct {
	sdk  *omisego.Client
	http *http.Client
	idle func() // closes kept connections
}

func newClient(base string, key secret.Value, timeout time.Duration) (*client, error) {
	sdk, err := omisego.NewClient("", key.Reveal())
	if err != nil {
		return nil, errors.New("omise: the SDK refuses the secret key: it must start with skey_")
	}
	sdk.Endpoints[defaultBase] = base
	inner := shared.Transport(timeout)
	return &client{
		sdk:  sdk,
		idle: inner.CloseIdleConnections,
		http: shared.Client(inner, timeout),
	}, nil
}

// answer is one HTTP answer, read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// createCharge sends a frozen charge.
func (c *client) createCharge(ctx context.Context, frozen []byte) (answer, error) {
	req, err := c.sdk.Request(frozenCharge{&operations.CreateCharge{}, frozen})
	if err != nil {
		return answer{}, errFrozen
	}
	return c.send(ctx, req)
}

// frozenCharge is omise-go's operation with the stored bytes for a body.
type frozenCharge struct {
	*operations.CreateCharge
	raw []byte
}

// MarshalJSON gives the stored bytes.
func (f frozenCharge) MarshalJSON() ([]byte, error) { return f.raw, nil }

// frozenRefund is omise-go's operation with the stored bytes for a body.
type frozenRefund struct {
	*operations.CreateRefund
	raw []byte
}

// MarshalJSON gives the stored bytes.
func (f frozenRefund) MarshalJSON() ([]byte, error) { return f.raw, nil }

// createRefund sends a frozen refund.
func (c *client) createRefund(ctx context.Context, id string, frozen []byte) (answer, error) {
	req, err := c.sdk.Request(frozenRefund{&operations.CreateRefund{ChargeID: id}, frozen})
	if err != nil {
		return answer{}, errFrozen
	}
	return c.send(ctx, req)
}

// refunds reads one page of a charge's refunds.
func (c *client) refunds(ctx context.Context, id string, list operations.List) (answer, error) {
	req, err := c.sdk.Request(&operations.ListRefunds{ChargeID: id, List: list})
	if err != nil {
		return answer{}, shared.ErrNoAnswer
	}
	return c.send(ctx, req)
}

// capture takes all of what an authorization holds.
func (c *client) capture(ctx context.Context, id string) (answer, error) {
	req, err := c.sdk.Request(&operations.CaptureCharge{ChargeID: id})
	if err != nil {
		return answer{}, shared.ErrNoAnswer
	}
	return c.send(ctx, req)
}

// reverse releases an authorization.
func (c *client) reverse(ctx context.Context, id string) (answer, error) {
	req, err := c.sdk.Request(&operations.ReverseCharge{ChargeID: id})
	if err != nil {
		return answer{}, shared.ErrNoAnswer
	}
	return c.send(ctx, req)
}

// expire ends a charge that waits for its buyer. omise-go has no such operation; it is a reverse at another path.
func (c *client) expire(ctx context.Context, id string) (answer, error) {
	req, err := c.sdk.Request(&operations.ReverseCharge{ChargeID: id})
	if err != nil {
		return answer{}, shared.ErrNoAnswer
	}
	req.URL.Path = strings.TrimSuffix(req.URL.Path, "/reverse") + "/expire"
	return c.send(ctx, req)
}

func (c *client) charge(ctx context.Context, id string) (answer, error) {
	req, err := c.sdk.Request(&operations.RetrieveCharge{ChargeID: id})
	if err != nil {
		return answer{}, shared.ErrNoAnswer
	}
	return c.send(ctx, req)
}

func (c *client) charges(ctx context.Context, list operations.List) (answer, error) {
	req, err := c.sdk.Request(&operations.ListCharges{List: list})
	if err != nil {
		return answer{}, shared.ErrNoAnswer
	}
	return c.send(ctx, req)
}

// send puts a request on the wire once: without GetBody, net/http cannot send it again by itself when a kept connection
// breaks.
func (c *client) send(ctx context.Context, req *http.Request) (answer, error) {
	req = req.WithContext(ctx)
	req.GetBody = nil
	res, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := shared.Body(res, maxAnswer)
	if err != nil {
		return answer{}, err
	}
	return answer{status: res.StatusCode, header: res.Header, body: body}, nil
}

// thaw reads a frozen charge, and proves that encoding it again gives the same bytes.
func thaw(frozen []byte) (method string, err error) {
	var c struct {
		Amount   int64  `json:"amount"`
		Card     string `json:"card"`
		Source   string `json:"source"`
		Customer string `json:"customer"`
	}
	if err := json.Unmarshal(frozen, &c); err != nil || c.Amount <= 0 {
		return "", errFrozen
	}
	again, err := json.Marshal(json.RawMessage(frozen))
	if err != nil || string(again) != string(frozen) {
		return "", errFrozen
	}
	switch {
	case c.Card != "" && c.Source == "" && c.Customer == "":
		return methodCard, nil
	case c.Source != "" && c.Card == "" && c.Customer == "":
		return methodSource, nil
	case c.Customer != "" && c.Card == "" && c.Source == "":
		return methodCustomer, nil
	}
	return "", errFrozen
}
