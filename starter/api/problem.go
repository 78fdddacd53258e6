package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"orderflow/starter/view"
)

// typePrefix makes a problem's name a URI. It is an identifier to compare, not an address to open.
const typePrefix = "urn:orderflow:problem:"

// ProblemType is one kind of error answer. Names are public and never change.
type ProblemType struct {
	Name    string // behind urn:orderflow:problem:
	Status  int
	Title   string // the same for every answer of this type
	Meaning string // what a client does about it
}

// The problem types that more than one place answers with.
const (
	typeNotFound      = "not-found"
	typeMethod        = "method-not-allowed"
	typeUnauthorized  = "unauthorized"
	typeForbidden     = "forbidden"
	typeTooLarge      = "body-too-large"
	typeTooSlow       = "body-too-slow"
	typeNotJSON       = "not-json"
	typeMalformed     = "malformed-body"
	typeValidation    = "validation"
	typeKeyMissing    = "idempotency-key-missing"
	typeKeyMalformed  = "idempotency-key-malformed"
	typeKeyReused     = "idempotency-key-reused"
	typeRunning       = "request-in-progress"
	typeOrderExists   = "order-exists"
	typeOutOfStock    = "out-of-stock"
	typeNoStock       = "unknown-stock"
	typeBelowReserved = "stock-below-reserved"
	typePaymentForm   = "payment-invalid"
	typePaymentTaken  = "payment-taken"
	typeAlreadyPaid   = "already-paid"
	typeUnresolved    = "attempt-unresolved"
	typePending       = "attempt-pending"
	typeHeld          = "attempt-held"
	typePartly        = "partly-captured"
	typeClosing       = "attempt-closing"
	typeExpired       = "order-expired"
	typeCanceled      = "order-canceled"
	typeChanged       = "order-changed"
	typeCanceling     = "order-canceling"
	typeCompleted     = "order-completed"
	typeNothingPaid   = "nothing-captured"
	typeNothingHeld   = "nothing-held"
	typeCaptured      = "capture-differs"
	typeMoreThanLeft  = "more-than-left"
	typeDisputed      = "refund-disputed"
	typeRefundForm    = "refund-invalid"
	typeReviewMoved   = "review-moved"
	typeReviewTaken   = "review-taken"
	typeNotDecided    = "decision-refused"
	typeMayNotDecide  = "decision-forbidden"
	typeEncoded       = "body-encoded"
	typeUnproven      = "webhook-unproven"
	typeNotNotice     = "webhook-malformed"
	typeHintLimit     = "webhook-limited"
	typeUnavailable   = "unavailable"
	typeInternal      = "internal"
)

var problemTypes = []ProblemType{
	{typeNotFound, 404, "Not found", "There is no such resource, or it belongs to another client."},
	{typeMethod, 405, "Method not allowed", "The Allow header lists the methods this path has."},
	{typeUnauthorized, 401, "Unauthorized", "Send a valid API key: Authorization: Bearer KEY."},
	{typeForbidden, 403, "Forbidden", "The API key lacks the scope this operation needs."},
	{typeTooLarge, 413, "Body too large", "Send at most 2 MiB."},
	{typeTooSlow, 408, "Body too slow", "The body did not arrive in time; send it again."},
	{typeNotJSON, 415, "Not JSON", "Send Content-Type: application/json, without a content encoding."},
	{typeMalformed, 400, "Malformed body", "The body is not JSON that every reader takes the same way; the detail says why."},
	{typeValidation, 422, "Validation failed", "The errors say which fields are wrong and what they must be."},
	{typeKeyMissing, 400, "Idempotency-Key missing", "Every POST needs an Idempotency-Key header, one per business operation."},
	{typeKeyMalformed, 400, "Idempotency-Key malformed", "The key is 1 to 255 visible ASCII characters, best in quotation marks."},
	{typeKeyReused, 422, "Idempotency-Key reused", "The key came with another request before; a new operation needs a new key."},
	{typeRunning, 409, "Request in progress", "The first request with this key is not finished; ask again after Retry-After with the same key."},
	{typeOrderExists, 409, "Order exists", "Another request made an order with this id; choose another id, or read that order."},
	{typeOutOfStock, 409, "Out of stock", "There is not enough stock for a line of action stock."},
	{typeNoStock, 422, "Unknown stock", "A line of action stock names a sku that was never set with PUT /v1/stock/{sku}."},
	{typeBelowReserved, 409, "Stock below reserved", "Orders have reserved more than that."},
	{typePaymentForm, 422, "Payment invalid", "The gateway cannot send this payment as it stands; nothing was sent."},
	{typePaymentTaken, 422, "Payment taken", "What the buyer brought from the provider (its payment, or the reference) belongs to another payment; nothing was sent."},
	{typeAlreadyPaid, 409, "Already paid", "Money for this order is captured. The body holds the payment; go on as paid."},
	{typeUnresolved, 409, "Attempt unresolved", "An earlier attempt may have taken the money. Do not pay again; ask again after Retry-After."},
	{typePending, 409, "Attempt pending", "An earlier attempt waits for the buyer; its next action is in the body."},
	{typeHeld, 409, "Attempt held", "An earlier attempt is approved: the buyer's bank holds its money. Capture it, or cancel the order to let it go."},
	{typePartly, 409, "Partly captured", "Only a part of the price was captured, and a person has it. Do not pay again; a cancel of the order gives the part back."},
	{typeClosing, 409, "Attempt closing", "An earlier attempt was declined and is being closed; try again after Retry-After."},
	{typeExpired, 409, "Order expired", "The time to pay for this order is over."},
	{typeCanceled, 409, "Order canceled", "This order was canceled."},
	{typeCanceling, 409, "Order canceling", "Somebody canceled this order; what an earlier payment did is found out first. Do not pay again."},
	{typeCompleted, 409, "Order completed", "Everything was provided, so there is nothing to cancel; money goes back by a refund."},
	{typeChanged, 409, "Order changed", "The order changed meanwhile: read it, and try again after Retry-After."},
	{typeNothingPaid, 409, "Nothing captured", "No money of this order is captured, so nothing can go back."},
	{typeNothingHeld, 409, "Nothing held", "No money of this order is held by the buyer's bank, so there is nothing to capture."},
	{typeCaptured, 409, "Capture differs", "Another amount was asked for before, and money is captured once; payment.capture says how much."},
	{typeMoreThanLeft, 409, "More than left", "That much cannot go back any more; left says how much can. What is being found out counts as gone."},
	{typeDisputed, 409, "Refund disputed", "The buyer's bank has given this money back, or may: a refund on top of it would pay twice."},
	{typeRefundForm, 422, "Refund invalid", "The gateway cannot give this money back as it stands; nothing was sent."},
	{typeReviewMoved, 409, "Review moved", "Somebody else decided, or what the review is about changed; why says which. Read the review again before deciding."},
	{typeReviewTaken, 409, "Review taken", "Another person has this review; assigned_to says who. Name that person in from to take it over."},
	{typeNotDecided, 422, "Decision refused", "The review, or the state of what it is about, does not allow this decision; why says what is missing."},
	{typeMayNotDecide, 403, "Decision forbidden", "Whoever holds this key may not decide this; why says which role, door or person it takes."},
	{typeEncoded, 415, "Body encoded", "Send the body without a content encoding: it is proven byte by byte."},
	{typeUnproven, 401, "Webhook unproven", "Nothing proves that the webhook comes from the provider now; nothing was stored."},
	{typeNotNotice, 400, "Webhook malformed", "The webhook does not have the provider's form; nothing was stored."},
	{typeHintLimit, 429, "Webhook limited", "Too many webhooks that nothing proves, about payments that nobody knows; nothing was stored. Send it again after Retry-After."},
	{typeUnavailable, 503, "Unavailable", "A part we depend on does not answer. Try again after Retry-After with the same key."},
	{typeInternal, 500, "Internal error", "A bug of ours. Trying again with the same key is safe."},
}

// ProblemTypes lists every kind of error answer, for the documentation and its test.
func ProblemTypes() []ProblemType { return append([]ProblemType(nil), problemTypes...) }

func typeOf(name string) ProblemType {
	for _, t := range problemTypes {
		if t.Name == name {
			return t
		}
	}
	return problemTypes[len(problemTypes)-1]
}

// FieldError is one thing wrong with a request. The value is never repeated.
type FieldError struct {
	Location string `json:"location" example:"body.lines[0].quantity"`
	Message  string `json:"message"`
}

// Problem is every error answer (RFC 9457).
type Problem struct {
	Type    string        `json:"type" example:"urn:orderflow:problem:validation"`
	Title   string        `json:"title"`
	Status  int           `json:"status"`
	Detail  string        `json:"detail,omitempty"`
	Errors  []FieldError  `json:"errors,omitempty"`
	Payment *view.Attempt `json:"payment,omitempty" doc:"the attempt that stands in the way, with its current outcome"`
	Order   *view.Summary `json:"order,omitempty" doc:"the order as it is now"`
	Left    *int64        `json:"left,omitempty" doc:"for more-than-left: what may still go back, in minor units"`

	Why    string `json:"why,omitempty" doc:"one stable word for what stands in the way of a decision"`
	Holder string `json:"assigned_to,omitempty" doc:"for review-taken: who has it"`

	retryAfter time.Duration
	header     http.Header
}

// problem makes an answer of a type.
func problem(name, detail string, errs ...FieldError) *Problem {
	t := typeOf(name)
	if detail == "" {
		detail = t.Meaning
	}
	return &Problem{Type: typePrefix + t.Name, Title: t.Title, Status: t.Status, Detail: detail, Errors: errs, header: http.Header{}}
}

// after says when to come again, which also marks the answer as one that may change.
func (p *Problem) after(d time.Duration) *Problem {
	p.retryAfter = d
	p.header.Set("Retry-After", strconv.Itoa(max(1, int(d.Round(time.Second)/time.Second))))
	return p
}

// Error names the type only.
func (p *Problem) Error() string { return p.Type }

// GetStatus is for huma.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders is for huma.
func (p *Problem) GetHeaders() http.Header { return p.header }

// ContentType is for huma.
func (p *Problem) ContentType(string) string { return problemJSON }

const problemJSON = "application/problem+json"

// write sends a problem from outside huma.
func (p *Problem) write(w http.ResponseWriter) {
	h := w.Header()
	for name, values := range p.header {
		h[name] = values
	}
	h.Set("Content-Type", problemJSON)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}
