package twoctwop

import (
	"context"
	"encoding/xml"
	"errors"
	"regexp"
	"strings"
	"time"

	"orderflow/gateways"
	"orderflow/gateways/shared"
	"orderflow/internal/fault"
	"orderflow/internal/money"
)

// Process is what the maintenance API is asked to do.
type Process string

// The processes.
const (
	Inquiry      Process = "I"
	Void         Process = "V"
	Settle       Process = "S"
	Refund       Process = "R"
	RefundStatus Process = "RS"
)

// Reads reports that a process changes nothing.
func (p Process) Reads() bool { return p == Inquiry || p == RefundStatus }

// Action is one call of the maintenance API.
type Action struct {
	Key       string       // the stored operation's key; a process that writes needs one
	Process   Process      // what to do
	InvoiceNo string       // the payment
	Amount    money.Amount // to settle or to give back; the currency also says how amounts in the answer are read
	NotifyURL string       // where an asynchronous refund is reported; may be empty
}

// MaintenanceAnswer is what the maintenance API said, in our words. Amounts are minor units of the action's currency.
type MaintenanceAnswer struct {
	InvoiceNo    string
	Code         string // respCode, "00"
	Status       string // 2C2P's word, "RP"
	State        State
	Final        bool // the state does not move any more
	AmountMinor  int64
	ReferenceNo  string
	ProviderTime time.Time // zero when the answer gave none
	Refunds      []RefundEntry
}

// RefundEntry is one refund in a RefundStatus answer.
type RefundEntry struct {
	Status       string
	State        State
	Final        bool
	AmountMinor  int64
	ReferenceNo  string
	ProviderTime time.Time
}

type processRequest struct {
	XMLName      xml.Name `xml:"PaymentProcessRequest"`
	Version      string   `xml:"version"`
	TimeStamp    string   `xml:"timeStamp"`
	MerchantID   string   `xml:"merchantID"`
	InvoiceNo    string   `xml:"invoiceNo"`
	ActionAmount string   `xml:"actionAmount,omitempty"`
	ProcessType  string   `xml:"processType"`
	NotifyURL    string   `xml:"notifyURL,omitempty"`
}

type processResponse struct {
	XMLName     xml.Name    `xml:"PaymentProcessResponse"`
	MerchantID  string      `xml:"merchantID"`
	InvoiceNo   string      `xml:"invoiceNo"`
	ProcessType string      `xml:"processType"`
	RespCode    string      `xml:"respCode"`
	Status      string      `xml:"status"`
	Amount      string      `xml:"amount"`
	ReferenceNo string      `xml:"referenceNo"`
	DateTime    string      `xml:"transactionDateTime"`
	Refunds     []refundXML `xml:"refundList>refund"`
}

type refundXML struct {
	Status      string `xml:"status"`
	Amount      string `xml:"amount"`
	ReferenceNo string `xml:"referenceNo"`
	DateTime    string `xml:"dateTime"`
}

const (
	maintenanceVersion = "4.3"
	timeForm           = "20060102150405"
)

var maintenanceKind = map[Process]gateways.Kind{
	Inquiry: read, RefundStatus: read, Void: gateways.Void, Settle: gateways.Capture, Refund: gateways.Refund,
}

// Maintain does one call: an inquiry, a void, a settlement, a refund, or the list of refunds. Errors are *fault.Error; on a
// process that writes, class unknown means that it may have happened.
//
// Nothing at 2C2P guards a repeated partial refund: it would give the money back twice. So a refund is sent once, ever,
// and after a lost answer only RefundStatus tells, by comparing its list with what was planned.
func (g *Gateway) Maintain(ctx context.Context, act Action) (MaintenanceAnswer, error) {
	kind, err := g.checkAction(act)
	if err != nil {
		return MaintenanceAnswer{}, err
	}
	req := processRequest{
		Version: maintenanceVersion, TimeStamp: g.now().In(zone).Format(timeForm), MerchantID: g.merchant,
		InvoiceNo: act.InvoiceNo, ProcessType: string(act.Process), NotifyURL: act.NotifyURL,
	}
	if act.Process == Settle || act.Process == Refund {
		if req.ActionAmount, err = wireAmount(act.Amount); err != nil {
			return MaintenanceAnswer{}, fault.Wrap(fault.PaymentInvalid, opName(kind), err)
		}
	}
	document, err := xml.Marshal(req)
	if err != nil {
		return MaintenanceAnswer{}, fault.Wrap(fault.InternalError, opName(kind), errFrozen)
	}
	body, err := g.maintenance.wrap(document)
	if err != nil {
		return MaintenanceAnswer{}, fault.Wrap(fault.InternalError, opName(kind), err)
	}
	r, err := g.client.post(ctx, g.maintenance.address, "text/plain", body)
	if err != nil {
		return MaintenanceAnswer{}, unanswered(kind, err)
	}
	document, err = g.maintenance.unwrap(r.body)
	if err != nil {
		return MaintenanceAnswer{}, g.unusable(kind, r, err)
	}
	var res processResponse
	if err := xml.Unmarshal(document, &res); err != nil {
		return MaintenanceAnswer{}, g.unusable(kind, r, shared.ErrNoAnswer)
	}
	return g.maintained(kind, act, r, res)
}

func (g *Gateway) checkAction(act Action) (gateways.Kind, error) {
	kind, ok := maintenanceKind[act.Process]
	switch {
	case !ok:
		return "", fault.Wrap(fault.InternalError, name+" maintenance", errors.New("there is no such process: use I, V, S, R or RS"))
	case g.maintenance == nil:
		return "", fault.Wrap(fault.GatewayMisconfigured, opName(kind), errors.New("the maintenance API is not configured: set TWOCTWOP_PRIVATE_KEY and TWOCTWOP_PROVIDER_KEY"))
	case !act.Process.Reads() && !shared.UsableKey(act.Key, maxKey):
		return "", fault.Wrap(fault.InternalError, opName(kind), errNoKey)
	case !invoiceShape.MatchString(act.InvoiceNo):
		return "", fault.Wrap(fault.PaymentInvalid, opName(kind), errors.New("the invoice number must be 1 to 50 letters and digits"))
	}
	if _, err := act.Amount.Currency.Exponent(); err != nil {
		return "", fault.Wrap(fault.PaymentInvalid, opName(kind), errors.New("the currency must be an upper-case ISO 4217 code: it says how amounts are read"))
	}
	if err := shared.ReturnURL(act.NotifyURL, maxReturnURL); err != nil {
		return "", fault.Wrap(fault.PaymentInvalid, opName(kind), errors.New("the notify URL must be an absolute http(s) URL of at most 255 bytes"))
	}
	return kind, nil
}

// maintained reads a decoded answer. One about another payment, or without a usable amount where it names one, decides
// nothing.
func (g *Gateway) maintained(kind gateways.Kind, act Action, r reply, res processResponse) (MaintenanceAnswer, error) {
	code := word(res.RespCode)
	if code == "" || !success(r) {
		return MaintenanceAnswer{}, g.unusable(kind, r, shared.ErrNoAnswer)
	}
	if code != "00" {
		return MaintenanceAnswer{}, g.answered(maintenanceCode(kind, code), kind, r, code)
	}
	if res.MerchantID != g.merchant || res.InvoiceNo != act.InvoiceNo || (res.ProcessType != "" && res.ProcessType != string(act.Process)) {
		return MaintenanceAnswer{}, g.unusable(kind, r, errOtherID)
	}
	state, listed := stateOf(word(res.Status))
	if !listed && (res.Status != "" || len(res.Refunds) == 0) {
		return MaintenanceAnswer{}, g.unusable(kind, r, shared.ErrNoAnswer)
	}
	out := MaintenanceAnswer{
		InvoiceNo: res.InvoiceNo, Code: code, Status: word(res.Status), State: state.state, Final: state.final,
		ReferenceNo: referenceWord(res.ReferenceNo), ProviderTime: providerTime(res.DateTime),
	}
	var ok bool
	if out.AmountMinor, ok = minorOf(res.Amount, act.Amount.Currency); !ok {
		return MaintenanceAnswer{}, g.unusable(kind, r, shared.ErrNoAnswer)
	}
	for _, x := range res.Refunds {
		s, listed := stateOf(word(x.Status))
		minor, ok := minorOf(x.Amount, act.Amount.Currency)
		if !listed || !ok {
			return MaintenanceAnswer{}, g.unusable(kind, r, shared.ErrNoAnswer)
		}
		out.Refunds = append(out.Refunds, RefundEntry{
			Status: word(x.Status), State: s.state, Final: s.final, AmountMinor: minor,
			ReferenceNo: referenceWord(x.ReferenceNo), ProviderTime: providerTime(x.DateTime),
		})
	}
	return out, nil
}

func minorOf(text string, c money.Currency) (int64, bool) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, true
	}
	a, err := money.Parse(text, c)
	return a.Minor, err == nil && a.Minor >= 0
}

var referenceShape = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func referenceWord(s string) string {
	if !referenceShape.MatchString(s) {
		return ""
	}
	return s
}
