package toss

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"

	"orderflow/gateways"
	"orderflow/internal/money"
	"orderflow/internal/secret"
)

// payment is the part of Toss's Payment object that decides something. Every object in it may be null.
type payment struct {
	PaymentKey     string          `json:"paymentKey"`
	OrderID        string          `json:"orderId"`
	Status         string          `json:"status"`
	Currency       string          `json:"currency"`
	Total          decimal         `json:"totalAmount"`
	Balance        decimal         `json:"balanceAmount"`
	RequestedAt    string          `json:"requestedAt"`
	ApprovedAt     string          `json:"approvedAt"`
	Cancels        []cancellation  `json:"cancels"`
	VirtualAccount *virtualAccount `json:"virtualAccount"`
	Failure        *struct {
		Code string `json:"code"`
	} `json:"failure"`
	Secret string `json:"secret"`

	total, balance int64 // minor units, read by decodePayment
}

type cancellation struct {
	Amount         decimal `json:"cancelAmount"`
	Reason         string  `json:"cancelReason"`
	CanceledAt     string  `json:"canceledAt"`
	TransactionKey string  `json:"transactionKey"`
	Status         string  `json:"cancelStatus"`
}

type virtualAccount struct {
	AccountNumber string `json:"accountNumber"`
	BankCode      string `json:"bankCode"`
	CustomerName  string `json:"customerName"`
	DueDate       string `json:"dueDate"`
	Expired       bool   `json:"expired"`
}

// verdict is what one status means to us.
type verdict struct {
	outcome gateways.Outcome
	final   bool
}

// verdicts has a row for every status Toss documents. IN_PROGRESS does not mean "being charged": the buyer has
// authenticated and Toss waits for our confirm. Two rows need a second look, see judge: WAITING_FOR_DEPOSIT stays so when
// its deadline has passed, and CANCELED is both "never paid" and "paid and given back".
var verdicts = map[string]verdict{
	"READY":               {outcome: gateways.Untouched},
	"IN_PROGRESS":         {outcome: gateways.Untouched},
	"WAITING_FOR_DEPOSIT": {outcome: gateways.Pending},
	"DONE":                {outcome: gateways.Succeeded},
	"PARTIAL_CANCELED":    {outcome: gateways.Succeeded},
	"CANCELED":            {outcome: gateways.Declined, final: true},
	"ABORTED":             {outcome: gateways.Declined, final: true},
	"EXPIRED":             {outcome: gateways.Declined, final: true},
}

// judge reads a payment. A status Toss added later, and what contradicts itself, is unknown: neither may close or pay an
// order.
func judge(p *payment) verdict {
	v, ok := verdicts[p.Status]
	if !ok {
		return verdict{outcome: gateways.Unknown}
	}
	switch p.Status {
	case "WAITING_FOR_DEPOSIT":
		if p.VirtualAccount != nil && p.VirtualAccount.Expired {
			return verdict{outcome: gateways.Declined, final: true}
		}
	case "CANCELED":
		if p.ApprovedAt != "" && len(p.Cancels) > 0 {
			v = verdict{outcome: gateways.Succeeded}
		}
	}
	// The balance tells how much is left, not the status: refunded in parts to nothing, a payment stays PARTIAL_CANCELED.
	// Canceled with money left is a contradiction.
	if v.outcome == gateways.Succeeded && (p.balance < 0 || (p.Status == "CANCELED" && p.balance != 0)) {
		return verdict{outcome: gateways.Unknown}
	}
	return v
}

var currencyShape = regexp.MustCompile(`^[A-Z]{3}$`)

// decodePayment reads an answer that is a payment. JSON of another shape decodes without an error, so it must name itself,
// its order, a status and an amount that its currency can say.
func decodePayment(a answer) (*payment, bool) {
	if a.status < 200 || a.status >= 300 {
		return nil, false
	}
	p := &payment{}
	if json.Unmarshal(a.body, p) != nil {
		return nil, false
	}
	if !paymentKeyShape.MatchString(p.PaymentKey) || !anyOrderID.MatchString(p.OrderID) || p.Status == "" ||
		!currencyShape.MatchString(p.Currency) {
		return nil, false
	}
	var ok bool
	if p.total, ok = p.Total.minor(money.Currency(p.Currency)); !ok || p.total <= 0 {
		return nil, false
	}
	if p.balance, ok = p.Balance.minor(money.Currency(p.Currency)); !ok || p.balance > p.total {
		p.balance = -1 // not said, or nonsense: it counts only where money was taken
	}
	return p, true
}

// observe turns a payment into an observation. It takes every identity from the answer, never from the question, so that
// the caller can see when the answer is about something else. Toss's answers do not say their mode; the key does.
func (g *Gateway) observe(p *payment, header http.Header) gateways.Observation {
	v := judge(p)
	o := gateways.Observation{
		Account:           g.account,
		ProviderPaymentID: p.PaymentKey,
		MerchantReference: p.OrderID,
		Outcome:           v.outcome,
		Final:             v.final,
		Status:            word(p.Status),
		Currency:          money.Currency(p.Currency),
		AmountMinor:       p.total,
		ProviderTime:      changedAt(p),
		RequestID:         traceID(header),
		Private:           secret.New(p.Secret),
	}
	switch v.outcome {
	case gateways.Succeeded:
		o.CapturedMinor, o.RefundedMinor = p.total, p.total-p.balance
	case gateways.Declined:
		o.DeclineCode = declineCode(p)
	case gateways.Pending:
		o.NextAction = transfer(p.VirtualAccount)
	}
	return o
}

// declineCode prefers Toss's reason over its status. A deposit that never came has no failure, and its status says nothing
// of the deadline.
func declineCode(p *payment) string {
	if p.Status == "WAITING_FOR_DEPOSIT" {
		return "EXPIRED"
	}
	if p.Failure != nil && word(p.Failure.Code) != "" {
		return p.Failure.Code
	}
	return word(p.Status)
}

// transfer tells the buyer where to pay.
func transfer(v *virtualAccount) *gateways.NextAction {
	if v == nil {
		return nil
	}
	a := &gateways.NextAction{Type: "transfer", Bank: v.BankCode, Account: v.AccountNumber, Holder: v.CustomerName}
	if due := korean(v.DueDate); !due.IsZero() {
		a.Due = due.Format(time.RFC3339)
	}
	return a
}

// changedAt is Toss's clock at the last thing that happened to the money: the latest cancel, else the approval.
func changedAt(p *payment) time.Time {
	at := korean(p.ApprovedAt)
	for _, c := range p.Cancels {
		if t := korean(c.CanceledAt); t.After(at) {
			at = t
		}
	}
	if at.IsZero() {
		return time.Time{}
	}
	return at.UTC()
}

// seoul is Korean time, which has had no daylight saving since 1988. A fixed zone needs no zone database on the machine.
var seoul = time.FixedZone("KST", 9*60*60)

// korean reads Toss's times. In some places they carry an offset and in others (webhooks, listings, deadlines) none; Toss
// is a Korean service whose times without one are Korean. What cannot be read is the zero time.
func korean(s string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999-0700"} {
		if at, err := time.Parse(layout, s); err == nil {
			return at
		}
	}
	at, err := time.ParseInLocation("2006-01-02T15:04:05.999999999", strings.TrimSpace(s), seoul)
	if err != nil {
		return time.Time{}
	}
	return at
}
