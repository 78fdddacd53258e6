package tosssim

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"
)

// The statuses of a payment.
const (
	ready           = "READY"
	inProgress      = "IN_PROGRESS"
	waiting         = "WAITING_FOR_DEPOSIT"
	done            = "DONE"
	partialCanceled = "PARTIAL_CANCELED"
	canceled        = "CANCELED"
	aborted         = "ABORTED"
	expired         = "EXPIRED"
)

// methodWords are Toss's words for the method types.
var methodWords = map[string]string{
	"card": "카드", "easy_pay": "간편결제", "transfer": "계좌이체", "virtual_account": "가상계좌", "mobile": "휴대폰",
	"foreign_easy_pay": "해외간편결제",
}

var seoul = time.FixedZone("KST", 9*60*60)

func stamp(t time.Time) string { return t.In(seoul).Format("2006-01-02T15:04:05-07:00") }

// payment is one payment. Amounts are minor units.
type payment struct {
	key, orderID, account    string
	method, currency, status string
	total, balance           int64
	requested, authenticated time.Time
	approved                 *time.Time
	secret, last             string // the per-payment secret, the last transaction key
	cancels                  []*cancellation
	va                       *virtualAccount
	failure                  *failure
	declineWith              string // the code that a confirm meets; empty = it succeeds
	buyerSecret, buyerURL    string
	foreign                  bool
}

type cancellation struct {
	amount, left int64
	reason       string
	at           time.Time
	key, status  string
}

type virtualAccount struct {
	number, bank, holder, refund string
	due                          time.Time
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Authentication is what a buyer does in Toss's window: choose a method and prove to be the payer. Nothing is charged yet.
type Authentication struct {
	Account     string // mId; empty = the account of the first key
	OrderID     string // 6 to 64 letters, digits, - and _
	AmountMinor int64
	Currency    string // "KRW", "JPY", "USD"
	Method      string // "card", …; empty = "card"
	DeclineWith string // the code that the confirm will meet, such as REJECT_CARD_PAYMENT; empty = it succeeds
	Ready       bool   // the buyer opened the window and has not authenticated
}

var (
	orderShape = regexp.MustCompile(`^[A-Za-z0-9_=-]{6,64}$`)
	keyShape   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.=-]{0,199}$`)
)

// Authenticate makes a payment that waits for its confirm and returns its payment key.
func (s *Sim) Authenticate(a Authentication) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	acc := s.accounts[a.Account]
	if a.Account == "" {
		acc = s.accounts[s.keys[0].name]
	}
	if acc == nil {
		return "", errors.New("the Toss simulator has no such account")
	}
	p, err := s.authenticate(acc, "tsim_"+rand.Text(), a)
	if err != nil {
		return "", err
	}
	return p.key, nil
}

// authenticate expects the lock to be held.
func (s *Sim) authenticate(acc *account, key string, a Authentication) (*payment, error) {
	if a.Method == "" {
		a.Method = "card"
	}
	_, known := decimals[a.Currency]
	switch {
	case !orderShape.MatchString(a.OrderID):
		return nil, errors.New("orderId must be 6 to 64 letters, digits, - and _")
	case !known:
		return nil, errors.New("currency must be KRW, JPY or USD")
	case a.AmountMinor <= 0:
		return nil, errors.New("amount must be a whole number of the currency's smallest unit above zero")
	case methodWords[a.Method] == "":
		return nil, errors.New("method must be card, easy_pay, transfer, virtual_account, mobile or foreign_easy_pay")
	}
	now := s.cfg.Now()
	p := &payment{
		key: key, orderID: a.OrderID, account: acc.name, method: a.Method, currency: a.Currency, status: inProgress,
		total: a.AmountMinor, balance: a.AmountMinor, requested: now, authenticated: now, last: transactionKey(),
		declineWith: a.DeclineWith, foreign: a.Method == "foreign_easy_pay",
	}
	if a.Ready {
		p.status = ready
	}
	acc.payments[key] = p
	acc.byOrder[p.orderID] = append(acc.byOrder[p.orderID], p)
	return p, nil
}

func transactionKey() string { return "txn_" + rand.Text() }

// magic reads a payment key that names its payment, so that a test needs nothing but the API: "pay_ok__order-1__12345__KRW"
// is a card payment of 12,345 won for order-1 that a buyer has just authenticated. The words before the first "__" are
// pay_ok, pay_declined (or pay_declined-CODE), pay_va, pay_transfer, pay_easy, pay_mobile, pay_foreign and pay_ready.
func magic(key string) (Authentication, bool) {
	parts := strings.Split(key, "__")
	if len(parts) < 4 {
		return Authentication{}, false
	}
	n := len(parts)
	word, code, _ := strings.Cut(parts[0], "-")
	a := Authentication{OrderID: strings.Join(parts[1:n-2], "__"), Currency: parts[n-1]}
	switch word {
	case "pay_ok":
	case "pay_declined":
		if a.DeclineWith = code; code == "" {
			a.DeclineWith = "REJECT_CARD_PAYMENT"
		}
	case "pay_ready":
		a.Ready = true
	case "pay_va":
		a.Method = "virtual_account"
	case "pay_transfer":
		a.Method = "transfer"
	case "pay_easy":
		a.Method = "easy_pay"
	case "pay_mobile":
		a.Method = "mobile"
	case "pay_foreign":
		a.Method = "foreign_easy_pay"
	default:
		return Authentication{}, false
	}
	var ok bool
	a.AmountMinor, ok = parseAmount(parts[n-2], a.Currency)
	return a, ok
}

// find returns a payment as it is now. A magic key comes into being when it is first mentioned. It expects the lock to be
// held.
func (s *Sim) find(acc *account, key string) *payment {
	p := acc.payments[key]
	if p == nil && keyShape.MatchString(key) {
		if a, ok := magic(key); ok {
			p, _ = s.authenticate(acc, key, a)
		}
	}
	if p != nil {
		s.refresh(p)
	}
	return p
}

// findOrder returns the payment of an order that went furthest: the one that was confirmed, else the latest.
func (s *Sim) findOrder(acc *account, orderID string) *payment {
	all := acc.byOrder[orderID]
	var best *payment
	for _, p := range all {
		s.refresh(p)
		if best == nil || best.approved == nil && best.status != waiting {
			best = p
		}
	}
	return best
}

// refresh applies what time alone does. It expects the lock to be held. A deposit's deadline passes in silence: only the
// field expired of the virtual account tells.
func (s *Sim) refresh(p *payment) {
	now := s.cfg.Now()
	late := (p.status == inProgress && now.Sub(p.authenticated) > s.settings.ConfirmWindow) ||
		(p.status == ready && now.Sub(p.requested) > s.settings.ReadyWindow)
	if late {
		p.status, p.failure = expired, &failure{"EXPIRED_PAYMENT", "The payment session has expired."}
		s.statusChanged(p)
	}
}

// Sweep lets time pass for every payment, so that the webhooks of expired ones go out without anybody asking.
func (s *Sim) Sweep() {
	s.mu.Lock()
	for _, acc := range s.accounts {
		for _, p := range acc.payments {
			s.refresh(p)
		}
	}
	out := s.drain()
	s.mu.Unlock()
	s.publish(out)
}

// view is the Payment object. Absent parts are null, as at Toss.
func (s *Sim) view(p *payment) map[string]any {
	v := map[string]any{
		"version": "2022-11-16", "mId": p.account, "paymentKey": p.key, "type": "NORMAL", "orderId": p.orderID,
		"orderName": "sandbox order", "currency": p.currency, "method": methodWords[p.method], "status": p.status,
		"totalAmount": formatAmount(p.total, p.currency), "balanceAmount": formatAmount(p.balance, p.currency),
		"suppliedAmount": formatAmount(p.balance, p.currency), "vat": 0, "taxFreeAmount": 0,
		"requestedAt": stamp(p.requested), "approvedAt": nil, "lastTransactionKey": p.last, "useEscrow": false,
		"cultureExpense": false, "isPartialCancelable": p.method != "mobile", "country": "KR",
		"card": nil, "virtualAccount": nil, "transfer": nil, "mobilePhone": nil, "giftCertificate": nil, "easyPay": nil,
		"cashReceipt": nil, "cashReceipts": nil, "discount": nil, "metadata": nil, "cancels": nil, "secret": nil,
		"failure": nil, "checkout": nil, "receipt": nil,
	}
	if p.approved != nil {
		v["approvedAt"] = stamp(*p.approved)
	}
	if p.secret != "" {
		v["secret"] = p.secret
	}
	if p.failure != nil {
		v["failure"] = p.failure
	}
	if p.buyerURL != "" {
		v["checkout"] = map[string]string{"url": p.buyerURL}
	}
	if p.method == "card" && p.approved != nil {
		v["card"] = map[string]any{"issuerCode": "11", "acquirerCode": "11", "installmentPlanMonths": 0, "acquireStatus": "READY"}
	}
	if p.va != nil {
		v["virtualAccount"] = p.va.view(p.status, s.cfg.Now())
	}
	if len(p.cancels) > 0 {
		list := make([]map[string]any, 0, len(p.cancels))
		for _, c := range p.cancels {
			list = append(list, map[string]any{
				"cancelAmount": formatAmount(c.amount, p.currency), "cancelReason": c.reason, "canceledAt": stamp(c.at),
				"transactionKey": c.key, "refundableAmount": formatAmount(c.left, p.currency), "cancelStatus": c.status,
				"cancelRequestId": nil, "receiptKey": nil,
			})
		}
		v["cancels"] = list
	}
	return v
}

func (a *virtualAccount) view(status string, now time.Time) map[string]any {
	return map[string]any{
		"accountType": "일반", "accountNumber": a.number, "bankCode": a.bank, "customerName": a.holder,
		"dueDate": stamp(a.due), "expired": status == waiting && now.After(a.due), "settlementStatus": "INCOMPLETED",
		"refundStatus": a.refund, "refundReceiveAccount": nil,
	}
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(`{"code":"COMMON_ERROR","message":"the sandbox could not encode its answer"}`)
	}
	return b
}
