// Package server puts the simulated outside world on one address: four payment providers with the pages their buyers meet and
// their webhooks, the issuers, the event receiver, and an admin API for faults and books.
//
// It must not know Orderflow. It may import the sandbox packages, internal/secret and the standard library.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/notify"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/receiver"
	"orderflow/sandbox/stripesim"
	"orderflow/sandbox/tosssim"
	"orderflow/sandbox/twoctwopsim"
)

// Config is what a sandbox is made of.
type Config struct {
	StripeKeys    []secret.Value // sk_test_… or sk_live_…; each is a merchant account of its own
	OmiseKeys     []omisesim.KeyPair
	Merchants     []twoctwopsim.Merchant // of 2C2P
	MerchantsKey  secret.Value           // PEM, 2C2P's own key of its maintenance API; zero = no captures and refunds there
	TossKeys      []secret.Value
	StripeWebhook secret.Value // whsec_…: signs Stripe's webhooks
	OmiseWebhook  secret.Value // base64: signs Omise's webhooks; zero = they are unsigned
	Webhooks      notify.Config
	IssuerToken   secret.Value // the bearer token of every issuer
	WebhookSecret secret.Value // whsec_…, shared with whoever sends events to /receiver
	PublicURL     string       // base of the buyer's page; empty = the address a request came to
	Logger        *slog.Logger // nil = silent
}

// Server is one sandbox.
type Server struct {
	log      *slog.Logger
	faults   *faults.Injector
	stripe   *stripesim.Sim
	omise    *omisesim.Sim
	twoctwop *twoctwopsim.Sim
	toss     *tosssim.Sim
	webhooks *notify.Sender
	issuers  *issuersim.Sim
	receiver *receiver.Receiver
	handler  http.Handler

	mu       sync.Mutex
	listener net.Listener
	http     *http.Server
	served   chan struct{} // closed when serving has ended
	failed   chan error    // carries the error of a server that ended by itself
}

// New makes a sandbox with empty books. Nothing listens yet: use Handler or Start.
func New(cfg Config) (*Server, error) {
	s := &Server{log: cfg.Logger, faults: faults.New(), failed: make(chan error, 1)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	cfg.Webhooks.Logger = s.log
	var err error
	if s.webhooks, err = notify.New(cfg.Webhooks); err != nil {
		return nil, err
	}
	if err = s.providers(withDefaults(cfg)); err != nil {
		return nil, err
	}
	s.issuers, err = issuersim.New(issuersim.Config{Token: cfg.IssuerToken, Faults: s.faults, Logger: s.log})
	if err != nil {
		return nil, err
	}
	s.receiver, err = receiver.New(receiver.Config{Secret: cfg.WebhookSecret, Faults: s.faults, Logger: s.log})
	if err != nil {
		return nil, err
	}
	s.handler = s.routes()
	return s, nil
}

// withDefaults gives every provider an account: a sandbox without one could not be asked anything.
func withDefaults(cfg Config) Config {
	if len(cfg.StripeKeys) == 0 {
		cfg.StripeKeys = []secret.Value{secret.New("sk_test_sandbox")}
	}
	if len(cfg.OmiseKeys) == 0 {
		cfg.OmiseKeys = []omisesim.KeyPair{{Secret: secret.New("skey_test_sandbox"), Public: "pkey_test_sandbox"}}
	}
	if len(cfg.Merchants) == 0 {
		cfg.Merchants = []twoctwopsim.Merchant{{ID: "SANDBOX01", Secret: secret.New("sandbox-merchant-secret-0123456789")}}
	}
	if len(cfg.TossKeys) == 0 {
		cfg.TossKeys = []secret.Value{secret.New("test_sk_sandbox")}
	}
	if cfg.StripeWebhook.IsZero() {
		cfg.StripeWebhook = secret.New("whsec_sandbox_only")
	}
	return cfg
}

func (s *Server) providers(cfg Config) error {
	public := func() string { return cfg.PublicURL }
	var errs [4]error
	s.stripe, errs[0] = stripesim.New(stripesim.Config{
		Keys: cfg.StripeKeys, Faults: s.faults, Logger: s.log, PublicURL: public, WebhookSecret: cfg.StripeWebhook, OnNotice: s.webhooks.Notify,
	})
	s.omise, errs[1] = omisesim.New(omisesim.Config{
		Keys: cfg.OmiseKeys, Faults: s.faults, Logger: s.log, PublicURL: public, WebhookSecret: cfg.OmiseWebhook, OnNotice: s.webhooks.Notify,
	})
	s.twoctwop, errs[2] = twoctwopsim.New(twoctwopsim.Config{
		Merchants: cfg.Merchants, PrivateKey: cfg.MerchantsKey, Faults: s.faults, Logger: s.log, PublicURL: public, OnNotice: s.webhooks.Notify,
	})
	s.toss, errs[3] = tosssim.New(tosssim.Config{Keys: cfg.TossKeys, Faults: s.faults, Logger: s.log, PublicURL: public, OnNotice: s.webhooks.Notify})
	return errors.Join(errs[:]...)
}

// Faults is the injector of all parties.
func (s *Server) Faults() *faults.Injector { return s.faults }

// Stripe is the simulated Stripe, with its books.
func (s *Server) Stripe() *stripesim.Sim { return s.stripe }

// Omise is the simulated Omise, with its books.
func (s *Server) Omise() *omisesim.Sim { return s.omise }

// TwoCTwoP is the simulated 2C2P, with its books.
func (s *Server) TwoCTwoP() *twoctwopsim.Sim { return s.twoctwop }

// Toss is the simulated Toss Payments, with its books.
func (s *Server) Toss() *tosssim.Sim { return s.toss }

// Webhooks sends what the providers tell; where to is set there.
func (s *Server) Webhooks() *notify.Sender { return s.webhooks }

// Issuers are the three simulated issuers, with their books.
func (s *Server) Issuers() *issuersim.Sim { return s.issuers }

// Receiver is the simulated event receiver, with its books.
func (s *Server) Receiver() *receiver.Receiver { return s.receiver }

// Reset forgets every object, book entry, fault and setting.
func (s *Server) Reset() {
	s.faults.Clear()
	s.webhooks.Reset()
	s.stripe.Reset()
	s.omise.Reset()
	s.twoctwop.Reset()
	s.toss.Reset()
	s.issuers.Reset()
	s.receiver.Reset()
}

// Handler serves everything; for httptest and for embedding.
func (s *Server) Handler() http.Handler { return s.handler }

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/stripe/v1/", http.StripPrefix("/stripe", s.stripe))
	mux.Handle("/omise/", http.StripPrefix("/omise", s.omise))
	mux.Handle("/twoctwop/", http.StripPrefix("/twoctwop", s.twoctwop))
	mux.Handle("/toss/", http.StripPrefix("/toss", s.toss))
	mux.Handle("/issuers/", s.issuers.Handler())
	mux.Handle("/receiver", s.receiver)
	mux.Handle("/receiver/", s.receiver)
	mux.Handle("/buyer/", s.stripe.Buyer())
	mux.Handle("/buyer/omise/", s.omise.Buyer())
	mux.Handle("/buyer/twoctwop/", s.twoctwop.Buyer())
	mux.Handle("/buyer/toss/", s.toss.Buyer())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		faults.JSON(http.StatusOK, map[string]string{"status": "ok"}).Write(w)
	})
	admin := http.NewServeMux()
	s.adminRoutes(admin)
	// A web page open in a developer's browser must not be able to arm faults or empty the books.
	mux.Handle("/admin/", http.NewCrossOriginProtection().Handler(admin))
	return mux
}

// Start listens on addr ("127.0.0.1:0" picks a free port) and serves in the background until Close.
func (s *Server) Start(addr string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		return errors.New("the sandbox is started already")
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("the address %s is taken by another program, maybe another sandbox: stop it or choose another address", addr)
	}
	if err != nil {
		return fmt.Errorf("the sandbox cannot listen on %s: %w", addr, err)
	}
	s.listener = l
	s.http = &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	s.served = make(chan struct{})
	go func(h *http.Server, served chan struct{}) {
		defer close(served)
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}(s.http, s.served)
	return nil
}

// Failed carries an error when serving ended by itself.
func (s *Server) Failed() <-chan error { return s.failed }

// Addr is the address it listens on, "" before Start.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// URL is "http://" and Addr.
func (s *Server) URL() string { return "http://" + s.Addr() }

// StripeURL is the API base to give to a Stripe client.
func (s *Server) StripeURL() string { return s.URL() + "/stripe" }

// OmiseURL, TwoCTwoPURL and TossURL are the API bases to give to clients of the other providers.
func (s *Server) OmiseURL() string { return s.URL() + "/omise" }

// TwoCTwoPURL is 2C2P's.
func (s *Server) TwoCTwoPURL() string { return s.URL() + "/twoctwop" }

// TossURL is Toss's.
func (s *Server) TossURL() string { return s.URL() + "/toss" }

// IssuerURL is the base to give to a client of one issuer.
func (s *Server) IssuerURL(kind issuersim.Kind) string { return s.URL() + "/issuers/" + string(kind) }

// ReceiverURL is where events go.
func (s *Server) ReceiverURL() string { return s.URL() + "/receiver" }

// Close lets go of held requests, waits a moment for running ones and stops. It is safe to call twice.
func (s *Server) Close() error {
	s.faults.Close()
	s.webhooks.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close()
	}
	<-s.served
	s.http, s.listener = nil, nil
	return nil
}
