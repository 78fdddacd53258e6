package twoctwopsim

import (
	"crypto/rand"
	"regexp"
	"strings"
	"time"
)

// invoice is one payment: 2C2P knows it by merchant ID and invoice number.
type invoice struct {
	merchant, no, currency, description, idempotencyID, returnURL, userDefined1 string

	minor    int64
	tokens   []*token
	channel  string
	flow     string    // what the last Do Payment answered
	code     string    // result code; empty = no payment was begun
	waits    bool      // for the buyer, or for due
	due      time.Time // when it pays by itself; zero = never
	deadline time.Time // of a waiting one
	buyer    string    // secret of the buyer's page
	hosted   bool      // the page was opened by the token and not by Do Payment
	status   string    // of the maintenance API
	tranRef  string
	received int64 // what came, where it is not what was asked for
	charge   *ChargeEntry
	at       time.Time
	refunds  []refund
}

// token is a single-use payment token.
type token struct {
	of   *invoice
	text string
	made time.Time
	used bool
}

func text(n int) string { return rand.Text()[:n] }

func invoiceKey(merchant, no string) string { return merchant + "\x00" + no }

var invoiceShape = regexp.MustCompile(`^[A-Za-z0-9]{1,50}$`)

func makeToken(s *Sim, r *request) result {
	f := r.fields
	minor, amountOK := parseAmount(f.text("amount"), f.text("currencyCode"))
	switch {
	case f.text("invoiceNo") == "" || f.text("description") == "" || f.text("currencyCode") == "":
		return failed("9005")
	case !invoiceShape.MatchString(f.text("invoiceNo")):
		return failed("9004")
	case len([]rune(f.text("description"))) > 250 || len(f.text("idempotencyID")) > 100:
		return failed("9006")
	case !amountOK:
		return failed("9009")
	}
	key := invoiceKey(r.merchant, f.text("invoiceNo"))
	in := s.invoices[key]
	if in != nil {
		if s.settings.IdempotencyReplay && f.text("idempotencyID") != "" && f.text("idempotencyID") == in.idempotencyID {
			return s.tokenAnswer(r, in, in.tokens[0], false)
		}
		if s.settings.DuplicateAt != AtPayment || in.code != "" || in.minor != minor || in.currency != f.text("currencyCode") {
			return failed("9015")
		}
	} else {
		in = &invoice{
			merchant: r.merchant, no: f.text("invoiceNo"), currency: f.text("currencyCode"), minor: minor,
			description: f.text("description"), idempotencyID: f.text("idempotencyID"), userDefined1: f.text("userDefined1"),
			returnURL: f.text("frontendReturnUrl"), status: "AP",
		}
		s.invoices[key] = in
		s.openPage(in, true)
	}
	t := &token{of: in, text: "kSAops9Zwhos8hSTSeLTU" + text(26), made: r.now}
	in.tokens = append(in.tokens, t)
	s.tokens[t.text] = t
	return s.tokenAnswer(r, in, t, true)
}

func (s *Sim) tokenAnswer(r *request, in *invoice, t *token, made bool) result {
	return result{code: "0000", executed: made, fields: map[string]any{
		"paymentToken": t.text, "webPaymentUrl": s.pageURL(r.base, in),
	}}
}

func (s *Sim) openPage(in *invoice, hosted bool) {
	delete(s.byBuyer, in.buyer)
	in.buyer, in.hosted = rand.Text(), hosted
	s.byBuyer[in.buyer] = in
}

func (s *Sim) closePage(in *invoice) {
	delete(s.byBuyer, in.buyer)
	in.buyer = ""
}

func (s *Sim) pageURL(base string, in *invoice) string { return base + "/buyer/twoctwop/" + in.buyer }

// usable finds a payment token that can still be used, or says why not.
func (s *Sim) usable(r *request) (*token, string) {
	t := s.tokens[r.fields.text("paymentToken")]
	switch {
	case t == nil || (r.wrapped && t.of.merchant != r.merchant):
		return nil, "9040"
	case t.used:
		return nil, "9041"
	case r.now.Sub(t.made) > s.settings.TokenLife:
		return nil, "9020"
	case t.of.code != "":
		return nil, "9015"
	}
	return t, ""
}

// doPayment uses up the token. Its answer is a flow code; a result is only for an inquiry.
func doPayment(s *Sim, r *request) result {
	t, bad := s.usable(r)
	if bad != "" {
		return failed(bad)
	}
	in, code := t.of, r.fields.child("payment").child("code")
	data := r.fields.child("payment").child("data")
	card := data.text("securePayToken")
	channel := code.text("channelCode")
	if channel == "" || (channel == "CC" && card == "") {
		return failed("9005")
	}
	t.used, in.channel, in.tranRef, in.at = true, channel, text(12), r.now
	in.deadline = r.now.Add(s.settings.PaymentExpiry)
	if u := r.fields.text("responseReturnUrl"); u != "" {
		in.returnURL = u
	}
	flow := map[string]any{"invoiceNo": in.no, "channelCode": channel}
	switch {
	case r.refuse != "":
		s.decline(in, r.refuse)
		in.flow = "2000"
	case channel == "CC":
		s.payByCard(r, in, card)
	case channel == "PPQR":
		in.flow = "1005"
	case channel == "123":
		in.flow = "1003"
	default:
		in.flow = "1001"
	}
	s.waiters[in] = true
	if in.flow != "2000" {
		in.code, in.waits = "0001", true
		s.openPage(in, false)
		flow["data"] = s.pageURL(r.base, in)
	} else {
		s.closePage(in)
	}
	return result{code: in.flow, executed: true, fields: flow}
}

// payByCard reads what the card's secure token wants to happen: ok__x, insufficient__x, expired__x, stolen__x, 3ds__x (the bank's
// page first), late__x or late__300ms__x (in progress for a while, then paid), code4062__x (any result code).
func (s *Sim) payByCard(r *request, in *invoice, card string) {
	word, rest, _ := strings.Cut(card, "__")
	in.flow = "2000"
	declined := map[string]string{"insufficient": "4051", "expired": "4054", "stolen": "4043"}
	code, isCode := strings.CutPrefix(word, "code")
	switch {
	case word == "ok":
		s.pay(in, in.minor)
	case word == "3ds":
		in.flow = "1001"
	case word == "late":
		wait := s.settings.LateFor
		if named, _, ok := strings.Cut(rest, "__"); ok {
			if d, err := time.ParseDuration(named); err == nil {
				wait = d
			}
		}
		in.code, in.waits, in.due = "2001", true, r.now.Add(wait)
	case declined[word] != "":
		s.decline(in, declined[word])
	case isCode:
		s.decline(in, code)
	default:
		s.decline(in, "4014")
	}
}

// pay takes money. What is not the amount that was asked for is money all the same.
func (s *Sim) pay(in *invoice, received int64) {
	in.code, in.status, in.waits, in.due = "0000", "A", false, time.Time{}
	if received != in.minor {
		in.received = received
	}
	s.tried(in, "").Captured = received
	s.closePage(in)
	s.notice(in)
}

func (s *Sim) decline(in *invoice, code string) {
	in.code, in.status, in.waits, in.due = code, "PF", false, time.Time{}
	s.tried(in, code)
	s.notice(in)
}

func (s *Sim) tried(in *invoice, declined string) *ChargeEntry {
	in.at = s.cfg.Now()
	in.charge = &ChargeEntry{
		At: in.at, Account: in.merchant, MerchantReference: in.no, TranRef: in.tranRef, Channel: in.channel,
		Currency: in.currency, Amount: in.minor, Declined: declined,
	}
	s.book.charges = append(s.book.charges, in.charge)
	return in.charge
}

// advance lets time do its work: late payments are paid, waiting ones expire. It expects the lock to be held.
func (s *Sim) advance(now time.Time) {
	for in := range s.waiters {
		switch {
		case !in.waits:
			delete(s.waiters, in)
		case !in.due.IsZero() && !now.Before(in.due):
			s.pay(in, in.minor)
		case in.due.IsZero() && now.After(in.deadline):
			in.code, in.status, in.waits = "5009", "EX", false
			s.closePage(in)
			s.notice(in)
		}
	}
}

// find reads an inquiry's target.
func (s *Sim) find(r *request) *invoice {
	if t := s.tokens[r.fields.text("paymentToken")]; t != nil && t.of.merchant == r.merchant {
		return t.of
	}
	return s.invoices[invoiceKey(r.merchant, r.fields.text("invoiceNo"))]
}

func inquire(s *Sim, r *request) result {
	in := s.find(r)
	if in == nil || in.code == "" {
		return failed("2002")
	}
	return result{code: in.code, fields: s.facts(in)}
}

// facts are the claims of an inquiry's answer and of a notice.
func (s *Sim) facts(in *invoice) map[string]any {
	minor := in.minor
	if in.received != 0 && in.code == "0000" {
		minor = in.received
	}
	return map[string]any{
		"merchantID": in.merchant, "invoiceNo": in.no, "currencyCode": in.currency,
		"amount":              formatAmount(minor, in.currency, s.settings.PadAmounts),
		"transactionDateTime": stamp(in.at),
		"channelCode":         in.channel, "tranRef": in.tranRef, "referenceNo": in.tranRef, "approvalCode": "654321",
		"userDefined1": in.userDefined1, "accountNo": "411111XXXXXX1111", "eci": "05",
		"agentCode": "SANDBOX", "paymentID": "ccpp_" + in.tranRef, "customerToken": nil,
	}
}

func transactionStatus(s *Sim, r *request) result {
	in := s.find(r)
	if in == nil {
		return failed("9040")
	}
	code := in.flow
	if !in.waits && in.code != "" {
		code = "2000"
	}
	if code == "" {
		code = "0001"
	}
	return result{code: code, fields: map[string]any{"invoiceNo": in.no, "channelCode": in.channel}}
}

// cancelTransaction ends what is not paid. A paid one stays paid.
func cancelTransaction(s *Sim, r *request) result {
	t := s.tokens[r.fields.text("paymentToken")]
	switch {
	case t == nil || (r.wrapped && t.of.merchant != r.merchant):
		return failed("9040")
	case (t.of.charge != nil && t.of.buyer == "") || (t.of.waits && !t.of.due.IsZero()):
		return failed("9041") // paid, over, or being worked on by the bank
	case t.of.code == "" && r.now.Sub(t.made) > s.settings.TokenLife:
		return failed("9020")
	}
	in := t.of
	t.used = true
	s.closePage(in)
	in.code, in.status, in.waits, in.at = "0003", "PF", false, r.now
	return result{code: "0000", executed: true, fields: map[string]any{"invoiceNo": in.no}}
}

// Act lets a test be the buyer of a payment that waits, without a browser. It reports whether the payment was waiting.
func (s *Sim) Act(invoiceNo string, pass bool) bool {
	defer s.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.cfg.Now())
	for _, in := range s.invoices {
		if in.no == invoiceNo && in.buyer != "" {
			s.act(in, pass)
			return true
		}
	}
	return false
}

// Receive lets money arrive that was not asked for like this: after the end, too little or too much.
func (s *Sim) Receive(invoiceNo string, minor int64) bool {
	defer s.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.cfg.Now())
	for _, in := range s.invoices {
		if in.no != invoiceNo {
			continue
		}
		late := in.code == "5009"
		s.pay(in, minor)
		switch {
		case late:
			in.status = "AE"
		case minor < in.minor:
			in.status = "AL"
		case minor > in.minor:
			in.status = "AM"
		}
		if !s.settings.OddLooksPaid && in.status != "A" {
			in.code = in.status
		}
		return true
	}
	return false
}

var described = map[string]string{
	"0000": "Success", "0001": "Transaction is pending", "0003": "Transaction is cancelled", "2000": "Transaction is completed, please do payment inquiry",
	"2001": "Transaction in progress", "2002": "Transaction not found", "4051": "Insufficient funds", "9015": "Existing invoice number",
	"9020": "Payment expired", "9040": "Payment token invalid", "9041": "Payment token already been used", "9042": "Hash value mismatch",
	"9991": "Internal error",
}

func describeCode(code string) string {
	if d, ok := described[code]; ok {
		return d
	}
	return "Code " + code
}
