package server

import (
	"encoding/json"
	"net/http"
	"time"

	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/receiver"
	"orderflow/sandbox/stripesim"
	"orderflow/sandbox/tosssim"
	"orderflow/sandbox/twoctwopsim"
)

func (s *Server) adminRoutes(mux *http.ServeMux) {
	admin := s.faults.Handler()
	mux.Handle("/admin/faults", admin)
	mux.Handle("/admin/faults/", admin)
	mux.Handle("/admin/latency", admin)
	mux.HandleFunc("POST /admin/reset", func(w http.ResponseWriter, _ *http.Request) {
		s.Reset()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /admin/books/stripe", s.stripeBooks)
	mux.HandleFunc("GET /admin/books/omise", func(w http.ResponseWriter, r *http.Request) {
		faults.JSON(http.StatusOK, s.omise.Books(omisesim.Filter{MerchantReference: r.URL.Query().Get("merchant_reference")})).Write(w)
	})
	mux.HandleFunc("GET /admin/books/twoctwop", func(w http.ResponseWriter, r *http.Request) {
		faults.JSON(http.StatusOK, s.twoctwop.Books(twoctwopsim.Filter{MerchantReference: r.URL.Query().Get("merchant_reference")})).Write(w)
	})
	mux.HandleFunc("GET /admin/books/toss", func(w http.ResponseWriter, r *http.Request) {
		faults.JSON(http.StatusOK, s.toss.Books(tosssim.Filter{MerchantReference: r.URL.Query().Get("merchant_reference")})).Write(w)
	})
	notices := s.webhooks.Handler()
	mux.Handle("/admin/notices", notices)
	mux.Handle("/admin/notices/", notices)
	mux.HandleFunc("GET /admin/books/issuers", s.issuerBooks)
	mux.HandleFunc("GET /admin/books/receiver", s.receiverBooks)
	mux.HandleFunc("GET /admin/issuers/settings", func(w http.ResponseWriter, _ *http.Request) { s.issuerSettings().Write(w) })
	mux.HandleFunc("POST /admin/issuers/settings", s.setIssuers)
	settingsRoutes(mux, "stripe", s.stripe)
	settingsRoutes(mux, "omise", s.omise)
	settingsRoutes(mux, "twoctwop", s.twoctwop)
	settingsRoutes(mux, "toss", s.toss)
	mux.HandleFunc("POST /admin/stripe/prune", func(w http.ResponseWriter, _ *http.Request) {
		faults.JSON(http.StatusOK, map[string]int{"pruned": s.stripe.PruneKeys()}).Write(w)
	})
}

func refuse(w http.ResponseWriter, status int, sentence string) {
	faults.JSON(status, map[string]string{"error": sentence}).Write(w)
}

// decode reads one JSON object strictly and answers by itself when it cannot.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		refuse(w, http.StatusBadRequest, "the body must be one JSON object: "+err.Error())
		return false
	}
	return true
}

// span is a duration as JSON text.
type span time.Duration

// MarshalText writes "1m30s".
func (d span) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads "1m30s".
func (d *span) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = span(v)
	return err
}

func (s *Server) stripeBooks(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	faults.JSON(http.StatusOK, s.stripe.Books(stripesim.Filter{
		Account: q.Get("account"), Intent: q.Get("intent"), MerchantReference: q.Get("merchant_reference"),
		Key: q.Get("key"), PathSuffix: q.Get("path_suffix"), CapturedOnly: q.Get("captured_only") == "true",
	})).Write(w)
}

func (s *Server) issuerBooks(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	faults.JSON(http.StatusOK, s.issuers.Books(issuersim.Filter{
		Kind: issuersim.Kind(q.Get("kind")), OrderID: q.Get("order_id"), UnitID: q.Get("unit_id"),
		OperationID: q.Get("operation_id"), SKU: q.Get("sku"), LiveOnly: q.Get("live_only") == "true",
	})).Write(w)
}

func (s *Server) receiverBooks(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	faults.JSON(http.StatusOK, s.receiver.Books(receiver.Filter{
		OrderID: q.Get("order_id"), ID: q.Get("id"), Type: q.Get("type"),
	})).Write(w)
}

type issuerSettings struct {
	LookupLag *span `json:"lookup_lag,omitempty"`
}

func (s *Server) issuerSettings() faults.Answer {
	lag := span(s.issuers.LookupLag())
	return faults.JSON(http.StatusOK, issuerSettings{LookupLag: &lag})
}

func (s *Server) setIssuers(w http.ResponseWriter, r *http.Request) {
	var in issuerSettings
	if !decode(w, r, &in) {
		return
	}
	if in.LookupLag != nil {
		s.issuers.SetLookupLag(time.Duration(*in.LookupLag))
	}
	s.issuerSettings().Write(w)
}
