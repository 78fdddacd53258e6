package tosssim

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

func getByKey(s *Sim, r *request, key string) (any, *apiError) {
	if p := s.find(r.account, key); p != nil {
		return s.view(p), nil
	}
	return nil, noPayment()
}

func getByOrder(s *Sim, r *request, orderID string) (any, *apiError) {
	if p := s.findOrder(r.account, orderID); p != nil {
		return s.view(p), nil
	}
	return nil, noPayment()
}

// confirm is where the money moves.
func confirm(s *Sim, r *request, _ string) (any, *apiError) {
	var in struct {
		PaymentKey string      `json:"paymentKey"`
		OrderID    string      `json:"orderId"`
		Amount     json.Number `json:"amount"`
	}
	if bad := decodeBody(r, &in); bad != nil {
		return nil, bad
	}
	if in.PaymentKey == "" || in.OrderID == "" || in.Amount == "" {
		return nil, invalid("paymentKey, orderId and amount are required.")
	}
	p := s.find(r.account, in.PaymentKey)
	if p == nil {
		return nil, noPayment()
	}
	amount, ok := parseAmount(in.Amount.String(), p.currency)
	switch {
	case in.OrderID != p.orderID:
		return nil, invalid("orderId is not the one of the payment.")
	case !ok || amount != p.total:
		return nil, invalid("amount is not the one the buyer authenticated.")
	case p.status == expired || p.status == ready || p.status == aborted:
		return nil, coded("NOT_FOUND_PAYMENT_SESSION", "The payment session does not exist or has expired.")
	case p.status != inProgress:
		return nil, coded("ALREADY_PROCESSED_PAYMENT", "The payment was processed already.")
	}
	for _, other := range r.account.byOrder[p.orderID] {
		if other != p && (other.approved != nil || other.status == waiting) {
			return nil, coded("DUPLICATED_ORDER_ID", "The order id was used for another payment.")
		}
	}
	if code := firstOf(r.refuse, p.declineWith); code != "" {
		return nil, s.decline(r, p, code)
	}
	p.secret = "ps_" + rand.Text()
	if p.method == "virtual_account" {
		s.issueAccount(r, p)
		return s.view(p), nil
	}
	s.paid(p, r.now)
	s.statusChanged(p)
	return s.view(p), nil
}

// decline is the buyer's card or bank saying no: the confirm failed, and the payment with it.
func (s *Sim) decline(r *request, p *payment, code string) *apiError {
	e := coded(code, "The payment was refused.")
	s.book.charge(&ChargeEntry{
		At: r.now, Account: p.account, Livemode: r.account.live, PaymentKey: p.key, MerchantReference: p.orderID,
		Currency: p.currency, Amount: p.total, Method: p.method, Declined: code,
	})
	if !s.settings.DeclineLeavesOpen {
		p.status, p.failure = aborted, &failure{code, e.message}
		s.statusChanged(p)
	}
	return e
}

// paid is the moment the money moves.
func (s *Sim) paid(p *payment, now time.Time) {
	p.status, p.approved, p.balance, p.last = done, &now, p.total, transactionKey()
	acc := s.accounts[p.account]
	acc.book(transaction{p: p, key: p.last, status: done, amount: p.total, at: now})
	s.book.charge(&ChargeEntry{
		At: now, Account: p.account, Livemode: acc.live, PaymentKey: p.key, MerchantReference: p.orderID,
		Currency: p.currency, Amount: p.total, Captured: p.total, Method: p.method, BuyerURL: p.buyerURL,
	})
}

// issueAccount gives the buyer an account to pay into. Numbers of test accounts begin with X.
func (s *Sim) issueAccount(r *request, p *payment) {
	digits := strings.Map(func(c rune) rune { return '0' + c%10 }, rand.Text()[:12])
	p.status, p.last = waiting, transactionKey()
	p.va = &virtualAccount{
		number: "X" + digits, bank: "20", holder: "토스샌드박스", refund: "NONE", due: r.now.Add(s.settings.DepositWindow),
	}
	p.buyerSecret = rand.Text()
	p.buyerURL = fmt.Sprintf("%s/buyer/toss/%s", r.base, p.buyerSecret)
	s.byBuyer[p.buyerSecret] = p
	s.byBuyer[p.va.number] = p // a buyer who has the number finds the bank
	s.callback(p)
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
