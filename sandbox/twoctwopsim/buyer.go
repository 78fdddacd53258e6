package twoctwopsim

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"

	"orderflow/sandbox/parts"
)

var buyerPage = parts.Page("Sandbox 2C2P", "Sandbox 2C2P", `{{if .Open}}<p>A shop asks you to pay <strong>{{.Amount}} {{.Currency}}</strong>. This is a simulation: no money moves.</p>
<form method="post" action="/buyer/twoctwop/{{.Secret}}/pass" style="display:inline"><button id="pass">Pay</button></form>
<form method="post" action="/buyer/twoctwop/{{.Secret}}/fail" style="display:inline"><button id="fail">Refuse</button></form>
{{else if .Back}}<p>You go back to the shop.</p>
<form method="post" action="{{.Back}}" id="back"><input type="hidden" name="paymentResponse" value="{{.Response}}"><button>Go on</button></form>
<script>document.getElementById("back").submit()</script>
{{else}}<p>{{.Sentence}}</p>{{end}}`)

// Buyer serves /buyer/twoctwop/{secret}: 2C2P's hosted page, the bank's, and what a QR code leads to, with POST …/pass and
// …/fail behind its two buttons.
func (s *Sim) Buyer() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /buyer/twoctwop/{secret}", s.showBuyer)
	mux.HandleFunc("POST /buyer/twoctwop/{secret}/{verdict}", s.judgeBuyer)
	return mux
}

func page(w http.ResponseWriter, status int, data map[string]any) {
	parts.Show(w, buyerPage, status, data)
}

const pageGone = "This payment no longer waits for you: it was paid, refused, canceled or has expired."

// waiting finds the payment behind a page. It expects the lock to be held.
func (s *Sim) waiting(secret string) *invoice {
	now := s.cfg.Now()
	s.advance(now)
	in := s.byBuyer[secret]
	if in != nil && in.hosted && now.Sub(in.tokens[len(in.tokens)-1].made) > s.settings.TokenLife {
		return nil
	}
	return in
}

func (s *Sim) showBuyer(w http.ResponseWriter, hr *http.Request) {
	s.mu.Lock()
	in := s.waiting(hr.PathValue("secret"))
	var data map[string]any
	if in != nil {
		data = map[string]any{"Open": true, "Secret": in.buyer, "Amount": formatAmount(in.minor, in.currency, false), "Currency": in.currency}
	}
	s.mu.Unlock()
	if data == nil {
		page(w, http.StatusGone, map[string]any{"Sentence": pageGone})
		return
	}
	page(w, http.StatusOK, data)
}

func (s *Sim) judgeBuyer(w http.ResponseWriter, hr *http.Request) {
	verdict := hr.PathValue("verdict")
	if verdict != "pass" && verdict != "fail" {
		page(w, http.StatusNotFound, map[string]any{"Sentence": "There is no such button."})
		return
	}
	s.mu.Lock()
	in := s.waiting(hr.PathValue("secret"))
	if in == nil {
		s.mu.Unlock()
		page(w, http.StatusGone, map[string]any{"Sentence": pageGone})
		return
	}
	s.act(in, verdict == "pass")
	back, byPost := in.returnURL, s.settings.ReturnByPost
	response := browserReturn(in)
	s.mu.Unlock()
	s.flush()
	u, err := url.Parse(back)
	switch {
	case back == "" || err != nil:
		page(w, http.StatusOK, map[string]any{"Sentence": "Thank you. You can close this page."})
	case byPost:
		page(w, http.StatusOK, map[string]any{"Back": back, "Response": response})
	default:
		q := u.Query()
		q.Set("paymentResponse", response)
		u.RawQuery = q.Encode()
		w.Header().Set("Referrer-Policy", "no-referrer")
		http.Redirect(w, hr, u.String(), http.StatusSeeOther)
	}
}

// act is the buyer's decision. It expects the lock to be held.
func (s *Sim) act(in *invoice, pass bool) {
	if in.tranRef == "" || in.hosted {
		in.tranRef = text(12)
	}
	if in.channel == "" {
		in.channel = "CC"
	}
	for _, t := range in.tokens {
		t.used = true // a payment was begun under it
	}
	if pass {
		s.pay(in, in.minor)
		return
	}
	code := "4081"
	if in.hosted {
		code = "4005"
	}
	again := in.hosted && s.settings.PageRetries
	s.decline(in, code)
	if !again {
		s.closePage(in)
	}
}

// browserReturn is the unsigned field that comes back with the buyer.
func browserReturn(in *invoice) string {
	b, err := json.Marshal(map[string]string{
		"invoiceNo": in.no, "channelCode": in.channel, "respCode": "2000", "respDesc": "Transaction is completed, please do payment inquiry request for full payment information.",
	})
	if err != nil {
		return ""
	}
	return base64.URLEncoding.EncodeToString(b)
}
