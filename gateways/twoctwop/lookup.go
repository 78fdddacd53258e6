package twoctwop

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

type inquiryRequest struct {
	MerchantID string `json:"merchantID"`
	InvoiceNo  string `json:"invoiceNo"`
	Locale     string `json:"locale"`
}

// zone is the one in which 2C2P writes its times. Its documents do not say; its files and its cut-off times are given in
// Thailand's, so that is assumed. Nothing is decided by these times.
var zone = time.FixedZone("ICT", 7*60*60)

// Lookup reads the payment by its invoice number (paymentInquiry), which is the same path whether or not the id was learnt.
func (g *Gateway) Lookup(ctx context.Context, q gateways.Query) (gateways.Observation, error) {
	invoice := q.ProviderPaymentID
	if invoice == "" {
		invoice = q.MerchantReference
	}
	if !invoiceShape.MatchString(invoice) {
		return gateways.Observation{}, fault.Wrap(fault.InternalError, opName(read),
			errors.New("a lookup needs an invoice number (1 to 50 letters and digits)"))
	}
	body, err := seal(g.secret, encode(inquiryRequest{MerchantID: g.merchant, InvoiceNo: invoice, Locale: "en"}))
	if err != nil {
		return gateways.Observation{}, unanswered(read, err)
	}
	ctx, done := context.WithTimeout(ctx, g.timeout) // of all reads
	defer done()
	r, a, err := g.call(ctx, read, "paymentInquiry", body)
	if err != nil {
		return gateways.Observation{}, err
	}
	k, known := unkeep(q.Private)
	if resultOf(a.code()) == saysAbsent {
		return g.absent(invoice, r, a, k, known)
	}
	if !a.signed {
		return gateways.Observation{}, g.refused(read, r, a.code())
	}
	o, err := g.observe(r, a, k, known)
	if err != nil || o.Outcome != gateways.Succeeded {
		return o, err
	}
	o.RefundedMinor, err = g.wentBack(ctx, o)
	return o, err
}

// wentBack is how much of a payment went back, by us or by anybody: the inquiry of payments does not say, only the maintenance API
// does. -1 = it cannot be had. An error is not taken for "nothing went back", which would undo what is known.
func (g *Gateway) wentBack(ctx context.Context, o gateways.Observation) (int64, error) {
	if g.maintenance == nil {
		return -1, nil
	}
	a, listed, err := g.refundsOf(ctx, o.ProviderPaymentID, o.Currency)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, e := range a.Refunds {
		if e.State == StateRefunded {
			sum += e.AmountMinor
		}
	}
	switch outcome := outcomeOf(a.State); {
	case len(a.Refunds) > 0:
		return sum, nil
	case outcome == gateways.Succeeded && a.AmountMinor == o.AmountMinor: // the payment's own status tells of a refund of everything
		return o.AmountMinor, nil
	case !listed || outcome != gateways.Unknown: // a status of none says nothing of parts
		return -1, nil
	}
	return 0, nil
}

// refundsOf reads the list of a payment's refunds, or where there is no such list the payment's own status.
func (g *Gateway) refundsOf(ctx context.Context, invoice string, c money.Currency) (a MaintenanceAnswer, listed bool, err error) {
	act := Action{Process: RefundStatus, InvoiceNo: invoice, Amount: money.Amount{Currency: c}}
	a, err = g.Maintain(ctx, act)
	if f := fault.As(err); f != nil && f.Code == fault.GatewayReadFailed && f.Provider.Code != "" {
		act.Process = Inquiry // 2C2P answered that it has no such list
		a, err = g.Maintain(ctx, act)
		return a, false, err
	}
	return a, err == nil, err
}

// absent reads "no such transaction", signed or not: 2C2P answers errors unsigned, and this one is final only by time (see
// Capabilities). It means different things over a payment's life. Without a token nothing was ever payable. While the token
// lives and no confirm was answered, nothing has reached it and the confirm may go out again. Once the buyer was asked to
// act, it means "not yet" for as long as anything could still be begun or paid, and "never" from then on.
func (g *Gateway) absent(invoice string, r reply, a answer, k kept, known bool) (gateways.Observation, error) {
	if other := a.text("invoiceNo"); other != "" && other != invoice {
		return gateways.Observation{}, g.unusable(read, r, errOtherID)
	}
	if merchant := a.text("merchantID"); merchant != "" && merchant != g.merchant {
		return gateways.Observation{}, g.answered(fault.PaymentMismatch, read, r, a.code())
	}
	if !known {
		return gateways.Observation{Account: g.account, MerchantReference: invoice, Outcome: gateways.NotFound, Status: a.code()}, nil
	}
	o := g.planned(invoice, money.Amount{Minor: k.Amount, Currency: k.Currency}, a)
	switch age := k.age(g.now()); {
	case k.Next != nil && age < payable:
		o.Outcome, o.NextAction = gateways.Pending, k.Next
	case k.Next != nil:
		o.Outcome, o.Final, o.DeclineCode = gateways.Declined, true, a.code()
	case age < repeatSafe:
		o.Outcome = gateways.Untouched
	default:
		o.Outcome = gateways.NotFound
	}
	return o, nil
}

// observe turns a signed inquiry into an observation. It takes every identity from the answer, never from the question, so
// that the caller can see when the answer is about something else.
func (g *Gateway) observe(r reply, a answer, k kept, known bool) (gateways.Observation, error) {
	result := resultOf(a.code())
	switch result {
	case saysReview:
		return gateways.Observation{}, g.answered(fault.PaymentNeedsReview, read, r, a.code())
	case saysNothing, saysUndecided:
		return gateways.Observation{}, g.refused(read, r, a.code())
	}
	if merchant := a.text("merchantID"); merchant != "" && merchant != g.merchant {
		return gateways.Observation{}, g.answered(fault.PaymentMismatch, read, r, a.code())
	}
	amount, ok := amountOf(a.fields)
	if !ok && known && result == saysPending && a.text("amount") == "" {
		amount, ok = money.Amount{Minor: k.Amount, Currency: k.Currency}, true // a payment just begun may not say it yet
	}
	invoice := a.text("invoiceNo")
	if !ok || a.text("merchantID") == "" || !invoiceShape.MatchString(invoice) || !success(r) {
		return gateways.Observation{}, g.unusable(read, r, shared.ErrNoAnswer)
	}
	o := g.planned(invoice, amount, a)
	o.ProviderTime = providerTime(a.text("transactionDateTime"))
	switch result {
	case saysPaid:
		o.Outcome, o.CapturedMinor = gateways.Succeeded, amount.Minor
	case saysPending:
		o.Outcome = gateways.Pending
		if known {
			o.NextAction = k.Next
		}
	case saysEnded:
		o.Outcome, o.Final, o.DeclineCode = gateways.Declined, true, a.code()
	default:
		// On the hosted page the buyer may try again with another card for as long as a payment can be begun there.
		o.Outcome, o.DeclineCode = gateways.Declined, a.code()
		o.Final = known && (!k.Hosted || k.age(g.now()) >= tokenLife+5*time.Minute)
	}
	return o, nil
}

// amountOf reads amount and currency as one value. 2C2P pads with zeros (000000002500.90000), so text is never compared.
func amountOf(f fields) (money.Amount, bool) {
	a, err := money.Parse(f.text("amount"), money.Currency(f.text("currencyCode")))
	return a, err == nil && a.Minor > 0
}

func providerTime(raw string) time.Time {
	at, err := time.ParseInLocation("20060102150405", raw, zone)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// nextAction is what the buyer can do, from the data of a flow code. Links go to the buyer's browser, so only web addresses
// and apps' own schemes pass.
func nextAction(flow flowCode, data string) (*gateways.NextAction, bool) {
	if data == "" || len(data) > 8192 {
		return nil, false
	}
	link := address(data)
	switch {
	case flow.qr && link:
		return &gateways.NextAction{Type: flow.action, QR: data, URL: data}, true
	case flow.qr && printable(data):
		return &gateways.NextAction{Type: flow.action, QR: data}, true
	case link:
		return &gateways.NextAction{Type: flow.action, URL: data}, true
	case flow.action == "voucher" && len(data) <= 64 && printable(data):
		return &gateways.NextAction{Type: flow.action, Code: data}, true
	}
	return nil, false
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func address(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || !printable(raw) {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "https", "http":
		return u.Host != ""
	case "", "javascript", "data", "vbscript", "file", "blob", "about", "view-source", "filesystem":
		return false
	}
	return strings.HasPrefix(raw[len(u.Scheme):], "://")
}
