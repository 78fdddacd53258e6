package tosssim

import (
	"errors"
	"net/http"
	"net/url"

	"orderflow/sandbox/parts"
)

var buyerPage = parts.Page("Sandbox payment window", "Sandbox payment window", `{{with .Checkout}}<p>A shop asks for <strong>{{.Amount}} {{.Currency}}</strong>. This is a simulation: no money moves.</p>
<form method="post" action="/buyer/toss/checkout">
<input type="hidden" name="orderId" value="{{.OrderID}}"><input type="hidden" name="amount" value="{{.Amount}}">
<input type="hidden" name="currency" value="{{.Currency}}"><input type="hidden" name="method" value="{{.Method}}">
<input type="hidden" name="successUrl" value="{{.SuccessURL}}"><input type="hidden" name="failUrl" value="{{.FailURL}}">
<button id="pass" name="verdict" value="pass">Pay</button>
<button id="decline" name="verdict" value="decline">Pay with a card that will be refused</button>
<button id="fail" name="verdict" value="fail">Go back</button></form>{{end}}
{{with .Account}}<p>Transfer <strong>{{.Amount}} {{.Currency}}</strong> to account {{.Number}} until {{.Due}}. State: <span id="status">{{.Status}}</span></p>
<form method="post" action="/buyer/toss/{{.Secret}}/deposit" style="display:inline"><button id="deposit">Deposit</button></form>
<form method="post" action="/buyer/toss/{{.Secret}}/correct" style="display:inline"><button id="correct">Take the deposit back</button></form>{{end}}
{{with .Sentence}}<p>{{.}}</p>{{end}}`)

// Buyer serves /buyer/toss/…: the window in which a buyer authenticates a payment, and for a virtual account the page that
// plays the bank.
func (s *Sim) Buyer() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /buyer/toss/checkout", s.showCheckout)
	mux.HandleFunc("POST /buyer/toss/checkout", s.checkout)
	mux.HandleFunc("GET /buyer/toss/{secret}", s.showAccount)
	mux.HandleFunc("POST /buyer/toss/{secret}/{act}", s.actAsBank)
	return mux
}

func page(w http.ResponseWriter, status int, data map[string]any) {
	parts.Show(w, buyerPage, status, data)
}

func say(w http.ResponseWriter, status int, sentence string) {
	page(w, status, map[string]any{"Sentence": sentence})
}

// checkoutForm is what the shop's page hands to Toss's window.
type checkoutForm struct{ OrderID, Amount, Currency, Method, SuccessURL, FailURL string }

func readCheckout(q url.Values) (checkoutForm, int64, error) {
	f := checkoutForm{
		OrderID: q.Get("orderId"), Amount: q.Get("amount"), Currency: firstOf(q.Get("currency"), "KRW"),
		Method: firstOf(q.Get("method"), "card"), SuccessURL: q.Get("successUrl"), FailURL: q.Get("failUrl"),
	}
	minor, ok := parseAmount(f.Amount, f.Currency)
	if !ok || minor <= 0 {
		return f, 0, errors.New("amount and currency must name a price, such as 12345 and KRW")
	}
	for _, raw := range []string{f.SuccessURL, f.FailURL} {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
			return f, 0, errors.New("successUrl and failUrl must be absolute web addresses")
		}
	}
	return f, minor, nil
}

func (s *Sim) showCheckout(w http.ResponseWriter, hr *http.Request) {
	f, _, err := readCheckout(hr.URL.Query())
	if err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	page(w, http.StatusOK, map[string]any{"Checkout": f})
}

// checkout authenticates and sends the buyer back with what Toss adds to the address.
func (s *Sim) checkout(w http.ResponseWriter, hr *http.Request) {
	hr.Body = http.MaxBytesReader(w, hr.Body, maxBody)
	if err := hr.ParseForm(); err != nil {
		say(w, http.StatusBadRequest, "The form cannot be read.")
		return
	}
	f, minor, err := readCheckout(hr.Form)
	if err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	back, add := f.SuccessURL, url.Values{"orderId": {f.OrderID}}
	if hr.Form.Get("verdict") == "fail" {
		back = f.FailURL
		add.Set("code", "PAY_PROCESS_CANCELED")
		add.Set("message", "The buyer went back.")
	} else {
		a := Authentication{OrderID: f.OrderID, AmountMinor: minor, Currency: f.Currency, Method: f.Method}
		if hr.Form.Get("verdict") == "decline" {
			a.DeclineWith = "REJECT_CARD_PAYMENT"
		}
		key, err := s.Authenticate(a)
		if err != nil {
			say(w, http.StatusBadRequest, err.Error())
			return
		}
		add.Set("paymentKey", key)
		add.Set("amount", f.Amount)
		add.Set("paymentType", "NORMAL")
	}
	u, _ := url.Parse(back) // read before
	q := u.Query()
	for k := range add {
		q.Set(k, add.Get(k))
	}
	u.RawQuery = q.Encode()
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, hr, u.String(), http.StatusSeeOther)
}

const pageGone = "There is no such account."

func (s *Sim) showAccount(w http.ResponseWriter, hr *http.Request) {
	s.mu.Lock()
	var data map[string]any
	if p := s.byBuyer[hr.PathValue("secret")]; p != nil {
		data = map[string]any{"Account": map[string]any{
			"Amount": formatAmount(p.total, p.currency), "Currency": p.currency, "Number": p.va.number,
			"Due": stamp(p.va.due), "Status": p.status, "Secret": p.buyerSecret,
		}}
	}
	s.mu.Unlock()
	if data == nil {
		say(w, http.StatusNotFound, pageGone)
		return
	}
	page(w, http.StatusOK, data)
}

func (s *Sim) actAsBank(w http.ResponseWriter, hr *http.Request) {
	secret := hr.PathValue("secret")
	s.mu.Lock()
	p := s.byBuyer[secret]
	s.mu.Unlock()
	act := s.Deposit
	switch {
	case p == nil:
		say(w, http.StatusNotFound, pageGone)
		return
	case hr.PathValue("act") == "correct":
		act = s.Correct
	case hr.PathValue("act") != "deposit":
		say(w, http.StatusNotFound, "There is no such button.")
		return
	}
	if err := act(p.key); err != nil {
		say(w, http.StatusConflict, err.Error())
		return
	}
	http.Redirect(w, hr, "/buyer/toss/"+secret, http.StatusSeeOther)
}

// BuyerURL is the page that plays the bank of a payment with a virtual account, "" for others.
func (s *Sim) BuyerURL(paymentKey string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, acc := range s.accounts {
		if p := acc.payments[paymentKey]; p != nil {
			return p.buyerURL
		}
	}
	return ""
}
