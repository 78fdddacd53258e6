package stripesim

import (
	"crypto/rand"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// voucherView is what a buyer takes to a convenience store.
type voucherView struct {
	ExpiresAt        int64                `json:"expires_at"`
	HostedVoucherURL string               `json:"hosted_voucher_url"`
	Stores           map[string]storeView `json:"stores"`
}

type storeView struct {
	ConfirmationNumber string `json:"confirmation_number"`
	PaymentCode        string `json:"payment_code"`
}

// transferView is where a buyer sends a bank transfer.
type transferView struct {
	AmountRemaining       int64         `json:"amount_remaining"`
	Currency              string        `json:"currency"`
	FinancialAddresses    []addressView `json:"financial_addresses"`
	HostedInstructionsURL string        `json:"hosted_instructions_url"`
	Reference             string        `json:"reference"`
	Type                  string        `json:"type"`
}

type addressView struct {
	SupportedNetworks []string    `json:"supported_networks"`
	Type              string      `json:"type"`
	Zengin            *zenginView `json:"zengin,omitempty"`
	ABA               *abaView    `json:"aba,omitempty"`
}

type zenginView struct {
	AccountHolderName string `json:"account_holder_name"`
	AccountNumber     string `json:"account_number"`
	AccountType       string `json:"account_type"`
	BankCode          string `json:"bank_code"`
	BankName          string `json:"bank_name"`
	BranchCode        string `json:"branch_code"`
	BranchName        string `json:"branch_name"`
}

type abaView struct {
	AccountNumber string `json:"account_number"`
	BankName      string `json:"bank_name"`
	RoutingNumber string `json:"routing_number"`
}

// transferTypes are the bank transfers by currency. Euro needs a country and is left out.
var transferTypes = map[string]string{
	"jpy": "jp_bank_transfer", "usd": "us_bank_transfer", "gbp": "gb_bank_transfer", "mxn": "mx_bank_transfer",
}

// allows refuses a payment method of a type that the intent does not take.
func (in *intent) allows(kind string) *apiError {
	if !slices.Contains(in.types, kind) {
		return badParameter("payment_intent_incompatible_payment_method", "payment_method", "The PaymentMethod provided (%s) is not allowed for this PaymentIntent.", kind)
	}
	if kind == kindTransfer && in.customer == "" {
		return badParameter("parameter_missing", "customer", "PaymentIntents with the payment method type customer_balance require a customer.")
	}
	return nil
}

// readOptions reads the options of vouchers and transfers.
func (in *intent) readOptions(p params) *apiError {
	const konbini, balance = "payment_method_options[konbini]", "payment_method_options[customer_balance]"
	in.voucherDays = 3
	days, has, bad := p.integer(konbini + "[expires_after_days]")
	if bad != nil {
		return bad
	}
	if has && (days < 1 || days > 60) {
		return badParameter("", konbini+"[expires_after_days]", "Invalid expires_after_days: must be between 1 and 60.")
	}
	if has {
		in.voucherDays = days
	}
	if !slices.Contains(in.types, kindTransfer) {
		return nil
	}
	if in.customer == "" {
		return badParameter("parameter_missing", "customer", "PaymentIntents with the payment method type customer_balance require a customer.")
	}
	if f := p.text(balance + "[funding_type]"); f != "" && f != "bank_transfer" {
		return badParameter("", balance+"[funding_type]", "Invalid funding_type: must be bank_transfer")
	} else if f == "" {
		return nil // only what is in the balance already could be used; a confirm says so
	}
	in.transferType = p.text(balance + "[bank_transfer][type]")
	if want, ok := transferTypes[in.currency]; !ok || in.transferType != want {
		return badParameter("", balance+"[bank_transfer][type]", "The bank transfer type does not fit the currency %s.", in.currency)
	}
	return nil
}

// fundable refuses to confirm a bank transfer that nobody was told how to make.
func (in *intent) fundable(method string) *apiError {
	if method == "" {
		method = in.method
	}
	if m, _ := lookupMethod(method); m.kind == kindTransfer && in.transferType == "" {
		return missing("payment_method_options[customer_balance][funding_type]")
	}
	return nil
}

func digits(n int) string {
	top := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
	v, err := rand.Int(rand.Reader, top)
	if err != nil {
		v = big.NewInt(1)
	}
	return fmt.Sprintf("%0*d", n, v)
}

// print makes the voucher of an intent that waits at its page. It ends at the last second of a day in Japan.
func (in *intent) print(now time.Time) {
	japan := time.FixedZone("JST", 9*60*60)
	y, m, d := now.In(japan).Date()
	in.voucher = &voucherView{
		ExpiresAt:        time.Date(y, m, d+int(in.voucherDays), 23, 59, 59, 0, japan).Unix(),
		HostedVoucherURL: in.buyerURL,
		Stores:           map[string]storeView{},
	}
	number := digits(11)
	for _, store := range []string{"familymart", "lawson", "ministop", "seicomart"} {
		in.voucher.Stores[store] = storeView{ConfirmationNumber: number, PaymentCode: digits(6)}
	}
}

// lapse ends the vouchers whose time is over. It expects the lock to be held.
func (s *Sim) lapse(r *request) {
	for in := range r.account.waiting {
		switch {
		case in.voucher == nil:
			delete(r.account.waiting, in)
		case r.now.Unix() > in.voucher.ExpiresAt:
			s.expire(&request{account: r.account, now: r.now}, in)
		}
	}
}

// expire is a voucher that nobody paid.
func (s *Sim) expire(r *request, in *intent) {
	s.remember(in)
	s.closeBuyerPage(in)
	delete(r.account.waiting, in)
	s.failed(r, in, nil, decline{
		code: "payment_intent_payment_attempt_expired", message: "The latest attempt to confirm the payment has expired.",
	})
}

// instructions are the account of the intent's customer: the same for all transfers of that customer.
func (in *intent) instructions() *transferView {
	v := &transferView{
		AmountRemaining: in.amount - in.funded, Currency: in.currency, HostedInstructionsURL: in.buyerURL,
		Reference: in.id[len(in.id)-8:], Type: in.transferType,
	}
	if in.transferType == "jp_bank_transfer" {
		v.FinancialAddresses = []addressView{{
			Type: "zengin", SupportedNetworks: []string{"zengin"},
			Zengin: &zenginView{
				AccountHolderName: "ストライプジャパン（カ", AccountNumber: "1234567", AccountType: "futsu",
				BankCode: "9999", BankName: "サンドボックス銀行", BranchCode: "001", BranchName: "本店",
			},
		}}
		return v
	}
	v.FinancialAddresses = []addressView{{
		Type: "aba", SupportedNetworks: []string{"ach", "domestic_wire_us"},
		ABA: &abaView{AccountNumber: "000123456789", BankName: "Sandbox Bank", RoutingNumber: "999999999"},
	}}
	return v
}

type fundingView struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Created  int64  `json:"created"`
	Currency string `json:"currency"`
	Customer string `json:"customer"`
	Net      int64  `json:"net_amount"`
	Type     string `json:"type"`
}

// fund is money that arrives for an intent. It is held until the whole amount is there; what is too much stays with the
// customer.
func (s *Sim) fund(r *request, in *intent, amount int64) {
	s.remember(in)
	in.funded += amount
	s.emit(r, "customer_cash_balance_transaction.created", fundingView{
		ID: id("ccsbtxn"), Object: "customer_cash_balance_transaction", Created: r.now.Unix(), Currency: in.currency,
		Customer: in.customer, Net: amount, Type: "funded",
	})
	if in.funded < in.amount {
		s.emit(r, "payment_intent.partially_funded", in.view())
		return
	}
	s.closeBuyerPage(in)
	s.charged(r, in)
}

// Transfer lets a test act as the buyer of an intent that waits for a bank transfer, with any amount in minor units. It
// reports whether the intent was waiting for one.
func (s *Sim) Transfer(intentID string, amount int64) bool {
	return s.act(intentID, func(r *request, in *intent) bool {
		if m, _ := lookupMethod(in.method); m.kind != kindTransfer || amount < 1 {
			return false
		}
		s.fund(r, in, amount)
		return true
	})
}

// act finds an intent that waits for its buyer, does something with it and publishes what came of it.
func (s *Sim) act(intentID string, do func(*request, *intent) bool) bool {
	s.mu.Lock()
	var in *intent
	var r *request
	for _, a := range s.accounts {
		if found := a.intents[intentID]; found != nil {
			r = &request{account: a, now: s.cfg.Now()}
			s.lapse(r)
			in = found
		}
	}
	done := in != nil && in.status == needsAction && do(r, in)
	if in == nil {
		s.mu.Unlock()
		return false
	}
	events := s.drainEvents(r.account)
	s.mu.Unlock()
	s.publish(r.account, events)
	return done
}
