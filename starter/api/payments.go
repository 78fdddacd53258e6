package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/cleantext"
	"orderflow/internal/fault"
	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/starter/idempotency"
	"orderflow/starter/view"
	"orderflow/store"
	"orderflow/store/sqlcgen"
)

// PaymentRequest is one try to collect.
type PaymentRequest struct {
	Gateway string        `json:"gateway" doc:"a configured provider" example:"stripe"`
	Account string        `json:"account,omitempty" doc:"the merchant account; left out, \"default\""`
	Method  MethodRequest `json:"method"`
	Capture string        `json:"capture,omitempty" enum:"now,later" doc:"later: the buyer's bank only holds the money, until POST /v1/orders/{id}/capture takes it; left out, now"`
}

// MethodRequest is what the buyer pays with. The token is stored encrypted and never shown.
type MethodRequest struct {
	Type      string `json:"type" example:"card"`
	Token     string `json:"token,omitempty" doc:"the provider's reference to what the buyer entered at the provider, never card data"`
	ReturnURL string `json:"return_url,omitempty" doc:"the checkout's page the buyer comes back to; left out, the buyer is not redirected"`
	Reference string `json:"reference,omitempty" doc:"the reference the checkout page used at the provider, where payments begin there (toss: orderId)"`
	Amount    string `json:"amount,omitempty" doc:"the amount the provider's redirect carried, as it came; it is compared with the order's" example:"12345"`
}

type payInput struct {
	ID   string `path:"id"`
	Body PaymentRequest
}

// PaymentView is an attempt with the order it belongs to.
type PaymentView struct {
	view.Attempt
	Order view.Summary `json:"order"`
}

type payOutput struct {
	Status     int
	Location   string `header:"Location"`
	RetryAfter string `header:"Retry-After"`
	Body       PaymentView
}

// maxReturnURL bounds the address of a checkout's page, in bytes.
const maxReturnURL = 2048

// waitHint is when to ask again about an outcome that is being found out.
const waitHint = 2 * time.Second

func (a *API) payOrder(ctx context.Context, in *payInput) (*payOutput, error) {
	if cleantext.OrderID(in.ID) != nil {
		return nil, problem(typeNotFound, "")
	}
	caller := callerOf(ctx)
	o, err := a.d.Store.OrderOwned(ctx, caller.Client, order.ID(in.ID))
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	d, planned, p := a.plan(in.Body, o)
	if p != nil {
		return nil, p
	}
	g := idempotency.From(ctx)
	subject, err := g.Begin(ctx, func() string { return string(order.NewAttemptID()) })
	if err != nil {
		return nil, err
	}
	d.ID, d.Client, d.CallerKey = order.AttemptID(subject), caller.Client, g.Key()
	for _, w := range planned {
		id := order.NewOperationID()
		d.Operations = append(d.Operations, store.OperationDraft{
			ID: id, Kind: string(w.Kind), Sealed: a.d.Box.Seal(w.Request, order.OperationPlace(id)), Fingerprint: a.d.Box.Fingerprint(w.Request),
		})
	}
	at, err := a.d.Store.AttemptOpen(ctx, d)
	if err != nil {
		return nil, a.openProblem(ctx, caller.Client, d.OrderID, err)
	}
	a.drive(ctx, at)
	return a.paymentAnswer(ctx, caller.Client, at)
}

// plan checks a request's form and freezes what will be sent. It has no effect.
func (a *API) plan(b PaymentRequest, o sqlcgen.Order) (store.AttemptDraft, []gateways.Planned, *Problem) {
	if b.Account == "" {
		b.Account = "default"
	}
	var errs fieldErrors
	gw := a.gateway(b.Gateway, b.Account)
	if gw == nil {
		errs.add("body.gateway", "is not a configured gateway, or has no such account")
	}
	errs.text("body.method.type", b.Method.Type, 50)
	errs.text("body.method.token", b.Method.Token, order.MaxText)
	errs.text("body.method.return_url", b.Method.ReturnURL, maxReturnURL)
	errs.text("body.method.reference", b.Method.Reference, order.MaxText)
	errs.text("body.method.amount", b.Method.Amount, 40)
	if isCardNumber(b.Method.Token) {
		errs.add("body.method.token", "is a card number; send the provider's token, never card data")
	}
	if b.Capture != "" && b.Capture != captureNow && b.Capture != captureLater {
		errs.add("body.capture", "must be now or later")
	}
	if len(errs.list) > 0 {
		return store.AttemptDraft{}, nil, problem(typeValidation, "", errs.list...)
	}
	if err := shared.ReturnURL(b.Method.ReturnURL, maxReturnURL); err != nil { // also where the provider gets our own address instead
		return store.AttemptDraft{}, nil, problem(typePaymentForm, "Nothing was sent: "+err.Error()+".")
	}
	amount := money.Amount{Minor: o.TotalMinor, Currency: money.Currency(o.Currency)}
	acc := gw.Account()
	d := store.AttemptDraft{
		OrderID: order.ID(o.OrderID), MerchantReference: order.NewMerchantReference(), MethodType: b.Method.Type, Amount: amount,
		Account: order.Account{Gateway: acc.Gateway, Name: acc.Name, Environment: string(acc.Environment)},
	}
	m := gateways.Method{Type: b.Method.Type, Token: b.Method.Token, ReturnURL: b.Method.ReturnURL, Reference: b.Method.Reference, Amount: b.Method.Amount}
	if a.d.PublicURL != "" && m.ReturnURL != "" {
		d.ReturnURL = m.ReturnURL
		m.ReturnURL, d.ReturnTokenHash = returnAddress(a.d.PublicURL)
	}
	p := gateways.Payment{MerchantReference: d.MerchantReference, Amount: amount, Method: m, CaptureLater: b.Capture == captureLater}
	planned, err := gw.Plan(p)
	if err != nil {
		return store.AttemptDraft{}, nil, problem(typePaymentForm, reasonOf(err, b))
	}
	if id, ok := gw.(gateways.Identifier); ok {
		known := id.Identify(p)
		d.MerchantReference, d.ProviderPaymentID = known.MerchantReference, known.ProviderPaymentID
	}
	return d, planned, nil
}

// returnAddress is our own page, which the provider sends the buyer's browser to: the token in it finds the attempt and cannot be
// guessed, and only its hash is kept.
func returnAddress(public string) (address string, hash []byte) {
	token := rand.Text() + rand.Text()
	return strings.TrimRight(public, "/") + "/return/" + token, ReturnTokenHash(token)
}

// ReturnTokenHash is what the store knows a return token by.
func ReturnTokenHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

func (a *API) gateway(name, account string) gateways.Gateway {
	for id, g := range a.d.Gateways {
		if id.Gateway == name && id.Name == account {
			return g
		}
	}
	return nil
}

// reasonOf passes a gateway's sentence on, unless it repeats something of the input.
func reasonOf(err error, b PaymentRequest) string {
	return sayable(err, b.Method.Token, b.Method.ReturnURL, b.Method.Reference)
}

func sayable(err error, inputs ...string) string {
	var f *fault.Error
	if !errors.As(err, &f) || f.Class != fault.Invalid || f.Cause == nil {
		return ""
	}
	reason := f.Cause.Error()
	for _, input := range inputs {
		if input != "" && strings.Contains(reason, input) {
			return ""
		}
	}
	return "Nothing was sent: " + reason + "."
}

// drive has an attempt that may still be on its way worked on, for as long as the answer may take. What became of it is
// asked of PostgreSQL, whatever the engine says or does not say.
func (a *API) drive(ctx context.Context, at sqlcgen.PaymentAttempt) {
	switch order.Status(at.Status) {
	case order.AttemptCreated, order.AttemptSent, order.AttemptUnknown:
	default:
		return
	}
	within, cancel := context.WithTimeout(ctx, a.d.AnswerBudget)
	defer cancel()
	if err := a.d.Engine.Submit(within, order.ID(at.OrderID), order.AttemptID(at.AttemptID)); err != nil {
		a.d.Log.InfoContext(ctx, "no outcome within the answer budget", "attempt", at.AttemptID, "error_type", errorType(err))
	}
}

// settle drives an attempt and reads what became of it.
func (a *API) settle(ctx context.Context, at sqlcgen.PaymentAttempt) sqlcgen.PaymentAttempt {
	a.drive(ctx, at)
	now, err := a.d.Store.Attempt(ctx, order.AttemptID(at.AttemptID))
	if err != nil {
		return at // it is stored and on its way: "checking" is true
	}
	return now
}

func errorType(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "deadline"
	}
	return strings.TrimPrefix(typeName(err), "*")
}

func (a *API) paymentAnswer(ctx context.Context, client order.ClientID, at sqlcgen.PaymentAttempt) (*payOutput, error) {
	at, h, err := a.d.Store.AttemptHead(ctx, client, order.ID(at.OrderID), order.AttemptID(at.AttemptID))
	if err != nil {
		return nil, a.failure(ctx, err)
	}
	out := &payOutput{Status: http.StatusCreated, Location: orderPath(order.ID(at.OrderID)), Body: PaymentView{view.AttemptOf(at), view.SummaryOf(h)}}
	if h.Part(order.AttemptID(at.AttemptID)) {
		out.Body.Attempt = out.Body.Partly()
	}
	if out.Body.Outcome == "checking" {
		out.Status, out.RetryAfter = http.StatusAccepted, strconv.Itoa(int(waitHint/time.Second))
	}
	return out, nil
}

// openProblem answers an attempt that may not be opened, with what stands in its way. An unresolved one is driven on first,
// within the answer budget: a buyer who paid, lost the page and pays again is told "already paid", not "try later".
func (a *API) openProblem(ctx context.Context, client order.ClientID, id order.ID, err error) error {
	why := rejection(err)
	if why == "attempt_unresolved" {
		if at, err := a.d.Store.AttemptUnclosed(ctx, id); err == nil {
			at = a.settle(ctx, at)
			why = whyNow(at)
			a.lookIfOpen(ctx, []sqlcgen.PaymentAttempt{at})
		}
	}
	var p *Problem
	switch why {
	case "already_paid":
		p = problem(typeAlreadyPaid, "")
		if h, err := a.d.Store.OrderHead(ctx, client, id); err == nil && view.Payment(h) == view.PaymentPartlyCaptured {
			p = problem(typePartly, "")
		}
	case "attempt_unresolved":
		p = problem(typeUnresolved, "").after(waitHint)
	case "attempt_pending":
		p = problem(typePending, "").after(waitHint)
		if at, err := a.d.Store.AttemptUnclosed(ctx, id); err == nil && at.HeldMinor > 0 {
			p = problem(typeHeld, "")
		}
	case "attempt_closing":
		p = problem(typeClosing, "").after(time.Second)
	case "order_expired":
		return problem(typeExpired, "")
	case "order_canceled":
		return problem(typeCanceled, "")
	case "order_canceling":
		p = problem(typeCanceling, "").after(waitHint)
	case "order_changed":
		return problem(typeChanged, "").after(time.Second)
	case "key_bound_elsewhere":
		return problem(typeKeyReused, "")
	case "payment_bound_elsewhere":
		return problem(typePaymentTaken, "")
	default:
		return a.failure(ctx, err)
	}
	a.standing(ctx, client, id, p)
	return p
}

// whyNow is the rule's word for an attempt that was unresolved a moment ago.
func whyNow(at sqlcgen.PaymentAttempt) string {
	switch order.Status(at.Status) {
	case order.AttemptSucceeded:
		return "already_paid"
	case order.AttemptPending:
		return "attempt_pending"
	case order.AttemptDeclined, order.AttemptClosed:
		return "attempt_closing" // the way is free, or will be in a moment: the caller's next try finds it so
	}
	return "attempt_unresolved"
}

// standing puts the order and the attempt that matters into a problem, so that the checkout can go on.
func (a *API) standing(ctx context.Context, client order.ClientID, id order.ID, p *Problem) {
	h, err := a.d.Store.OrderHead(ctx, client, id)
	if err != nil {
		return
	}
	s := view.SummaryOf(h)
	p.Order = &s
	var pick order.AttemptID
	for _, at := range h.Attempts {
		if pick == "" || at.Status == order.AttemptSucceeded || !at.Closed {
			pick = at.ID
		}
	}
	if pick == "" {
		return
	}
	if at, err := a.d.Store.Attempt(ctx, pick); err == nil {
		v := view.AttemptOf(at)
		p.Payment = &v
	}
}
