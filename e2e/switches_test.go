package e2e

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/gateways/all"
	"orderflow/internal/secret"
	"orderflow/order"
	"orderflow/sandbox/omisesim"
	"orderflow/sandbox/server"
	"orderflow/sandbox/stripesim"
	"orderflow/sandbox/tosssim"
	"orderflow/sandbox/twoctwopsim"
)

// This file is the one list of what nobody could verify about the providers. Each such fact is a switch of the simulator - and of
// the gateway, where that has to be told - and the tests of unknown outcomes (unknowns_test.go) run with every switch turned by
// itself. A fact without a switch stands in a comment here, with the reason why nothing can depend on it:
//
//   - Stripe: the scope of a key over accounts. Every operation of ours has a key that no other one has.
//   - Stripe, Omise, 2C2P: how often and how long a webhook is sent again. The runs without webhooks end in the same place.
//   - Omise: an idempotency header. None is sent. The exact text that is signed: one that does not verify is refused.
//   - Omise: what a search finds. Nothing is searched for.
//   - 2C2P: cards and amounts that its sandbox declines. Declines are faults here.
//   - Toss: another body under the same key. The stored bytes are what is sent. Other 2xx than 200 to a webhook: 200 is answered.
//   - Toss: figures of its rate limit. A 429 is one of the mishaps of every run.

// wanted is where a trial has to come to, by the write that is hit, by what hits it, and by whether the write was done.
type wanted func(step string, m mishap, happened bool) end

// flip is one such fact, taken the other way than the sandbox takes it by itself.
type flip struct {
	name   string   // letters and digits, it is part of the orders' names
	turns  []string // fields of the simulator's Settings; "options" is the gateway's
	set    func(*server.Server)
	with   []option // where the gateway has to be told too; such a flip has a world of its own
	told   bool     // it is about webhooks, so they are on
	wants  wanted   // nil = as the provider's
	closes *end     // where a declined payment comes to; nil = closed
	also   func(w *world, tag string)
	short  bool // it is the provider's one in the short run
}

// provider is one with all its switches.
type provider struct {
	*psp
	bound    string // how long outcomes are looked up: long enough for every lookup that ends well
	wants    wanted
	settings func(*server.Server) (all any, restore func())
	flips    []flip
	known    map[string]string // other settings of the simulator, and why they are no such switch
}

func stripeSwitches() provider {
	turn := func(f func(*stripesim.Settings)) func(*server.Server) {
		return func(s *server.Server) { s.Stripe().Configure(f) }
	}
	return provider{
		psp: &stripe, bound: "15s",
		wants: func(_ string, m mishap, _ bool) end {
			if m.name == "stored" { // kept under the key for a day, and a lookup shows an intent that nobody has confirmed
				return unpaid
			}
			return done
		},
		settings: func(s *server.Server) (any, func()) {
			before := s.Stripe().Settings()
			return before, func() { s.Stripe().Configure(func(now *stripesim.Settings) { *now = before }) }
		},
		flips: []flip{
			{name: "oddstatus", turns: []string{"OddStatuses"}, set: turn(func(s *stripesim.Settings) { s.OddStatuses = true }), short: true},
			{name: "searchlag", turns: []string{"SearchLag"}, set: turn(func(s *stripesim.Settings) { s.SearchLag = 1500 * time.Millisecond })},
			{name: "minimums", turns: []string{"Minimums"}, set: turn(func(s *stripesim.Settings) { s.Minimums = true })},
			{
				name: "slowrefunds", turns: []string{"PendingRefunds"}, set: turn(func(s *stripesim.Settings) { s.PendingRefunds = true }),
				also: func(w *world, tag string) { w.refundsFoundOut(tag, refunders[0]) },
			},
		},
		known: map[string]string{"KeyTTL": "documented; PC-38 lets keys age", "EventsKept": "the simulator's own size"},
	}
}

func omiseSwitches() provider {
	turn := func(f func(*omisesim.Settings)) func(*server.Server) {
		return func(s *server.Server) { s.Omise().Configure(f) }
	}
	elsewhere := func(w *world, tag string) { w.lostElsewhere(tag, &omise) }
	return provider{
		psp: &omise, bound: "15s", wants: always,
		settings: func(s *server.Server) (any, func()) {
			before := s.Omise().Settings()
			return before, func() { s.Omise().Configure(func(now *omisesim.Settings) { *now = before }) }
		},
		flips: []flip{
			{name: "listlag", turns: []string{"ListLag"}, set: turn(func(s *omisesim.Settings) { s.ListLag = 1500 * time.Millisecond }), also: elsewhere, short: true},
			{name: "used404", turns: []string{"UsedTokenStatus"}, set: turn(func(s *omisesim.Settings) { s.UsedTokenStatus = http.StatusNotFound })},
			{name: "usedcode", turns: []string{"UsedSourceCode"}, set: turn(func(s *omisesim.Settings) { s.UsedSourceCode = "invalid_charge" }), also: elsewhere},
			{name: "twice", turns: []string{"AcceptUsedSource"}, set: turn(func(s *omisesim.Settings) { s.AcceptUsedSource = true }), also: elsewhere},
			{name: "older", turns: []string{"AccountVersion"}, set: turn(func(s *omisesim.Settings) { s.AccountVersion = omisesim.OlderVersion }), told: true, also: elsewhere},
			{name: "unsigned", turns: []string{"Unsigned"}, set: turn(func(s *omisesim.Settings) { s.Unsigned = true }), told: true, also: elsewhere},
			{
				name: "slowrefunds", turns: []string{"PendingRefunds"}, set: turn(func(s *omisesim.Settings) { s.PendingRefunds = true }),
				also: func(w *world, tag string) { w.refundsFoundOut(tag, refunders[1]) },
			},
		},
		known: map[string]string{
			"Limits": "documented, and below them nothing is sent", "PendingFor": "named by every charge", "EventsKept": "the simulator's own size",
		},
	}
}

// lostToken: where the token's answer is lost, the token is lost. The invoice number stays ours, nothing can be paid under it by
// us, and only time makes "not found" final.
func lostToken(step string, m mishap, happened bool) end {
	if step == "prepare" && happened && m.name != "slow" {
		return unpaid
	}
	return done
}

func twoctwopSwitches() provider {
	turn := func(f func(*twoctwopsim.Settings)) func(*server.Server) {
		return func(s *server.Server) { s.TwoCTwoP().Configure(f) }
	}
	elsewhere := func(w *world, tag string) { w.lostElsewhere(tag, &twoctwop) }
	return provider{
		psp: &twoctwop, bound: "15s", wants: lostToken,
		settings: func(s *server.Server) (any, func()) {
			before := s.TwoCTwoP().Settings()
			return before, func() { s.TwoCTwoP().Configure(func(now *twoctwopsim.Settings) { *now = before }) }
		},
		flips: []flip{
			{ // a second token under the same number, until a payment was begun
				name: "duplicate", turns: []string{"DuplicateAt"}, wants: always, short: true,
				set: turn(func(s *twoctwopsim.Settings) { s.DuplicateAt = twoctwopsim.AtPayment }),
			},
			{name: "replay", turns: []string{"IdempotencyReplay"}, wants: always, set: turn(func(s *twoctwopsim.Settings) { s.IdempotencyReplay = true })},
			{name: "plainonly", turns: []string{"Wrapping"}, set: turn(func(s *twoctwopsim.Settings) { s.Wrapping = twoctwopsim.Plain }), also: elsewhere},
			{
				name: "wrapall", turns: []string{"Wrapping", "options"}, with: []option{with("TWOCTWOP_OPTIONS", "wrap_all=true")},
				set: turn(func(s *twoctwopsim.Settings) { s.Wrapping = twoctwopsim.Wrapped }), also: elsewhere,
			},
			{
				name: "otherpaths", turns: []string{"OtherPaths", "options"}, also: elsewhere,
				with: []option{with("TWOCTWOP_OPTIONS", "payment_path=doPayment,cancel_path=canceltransaction")},
				set:  turn(func(s *twoctwopsim.Settings) { s.OtherPaths = true }),
			},
			{name: "status400", turns: []string{"ErrorStatus"}, set: turn(func(s *twoctwopsim.Settings) { s.ErrorStatus = http.StatusBadRequest }), also: elsewhere},
			{name: "signed", turns: []string{"SignedErrors"}, set: turn(func(s *twoctwopsim.Settings) { s.SignedErrors = true })},
			{name: "unpadded", turns: []string{"PadAmounts"}, set: turn(func(s *twoctwopsim.Settings) { s.PadAmounts = false })},
			{name: "noticefirst", turns: []string{"NoticeFirst"}, set: turn(func(s *twoctwopsim.Settings) { s.NoticeFirst = true }), told: true, also: elsewhere},
			{name: "retries", turns: []string{"PageRetries"}, set: turn(func(s *twoctwopsim.Settings) { s.PageRetries = true }), also: elsewhere},
			{name: "byform", turns: []string{"ReturnByPost"}, set: turn(func(s *twoctwopsim.Settings) { s.ReturnByPost = true }), also: elsewhere},
			{name: "onerefund", turns: []string{"OneRefund"}, set: turn(func(s *twoctwopsim.Settings) { s.OneRefund = true }), also: (*world).secondPartRefused},
			{name: "nolist", turns: []string{"NoRefundList"}, set: turn(func(s *twoctwopsim.Settings) { s.NoRefundList = true }), also: (*world).refundsWithoutAList},
			{
				name: "slowrefunds", turns: []string{"PendingRefunds"}, set: turn(func(s *twoctwopsim.Settings) { s.PendingRefunds = true }),
				also: func(w *world, tag string) { w.refundsFoundOut(tag, twoctwopBack) },
			},
			{name: "oddpaid", turns: []string{"OddLooksPaid"}, set: turn(func(s *twoctwopsim.Settings) { s.OddLooksPaid = true }), also: elsewhere},
		},
		known: map[string]string{
			"WrongSignature": "a forger's, not 2C2P's", "ForgedNotices": "a forger's, not 2C2P's",
			"TokenLife": "documented", "PaymentExpiry": "named by every payment", "LateFor": "the simulator's own pace",
			"SettlesAtOnce": "the hour of the night's cut-off: on in worlds that give money back, off in the others; TestPendingRefunds turns it",
		},
	}
}

func tossSwitches() provider {
	turn := func(f func(*tosssim.Settings)) func(*server.Server) {
		return func(s *server.Server) { s.Toss().Configure(f) }
	}
	elsewhere := func(w *world, tag string) { w.lostElsewhere(tag, &toss) }
	return provider{
		psp: &toss, bound: "15s", wants: always,
		settings: func(s *server.Server) (any, func()) {
			before := s.Toss().Settings()
			return before, func() { s.Toss().Configure(func(now *tosssim.Settings) { *now = before }) }
		},
		flips: []flip{
			{name: "errors-go", turns: []string{"KeepServerErrors"}, set: turn(func(s *tosssim.Settings) { s.KeepServerErrors = false }), short: true},
			{name: "stable-id", turns: []string{"StableTransmissionID"}, set: turn(func(s *tosssim.Settings) { s.StableTransmissionID = true }), told: true, also: elsewhere},
			{name: "status-first", turns: []string{"CallbackFirst"}, set: turn(func(s *tosssim.Settings) { s.CallbackFirst = false }), told: true, also: elsewhere},
			{name: "corrections", turns: []string{"CorrectionCancels"}, set: turn(func(s *tosssim.Settings) { s.CorrectionCancels = true }), told: true, also: elsewhere},
			{ // a declined payment key could still be approved and nothing closes it but time: a person has it meanwhile
				name: "decline-open", turns: []string{"DeclineLeavesOpen"}, set: turn(func(s *tosssim.Settings) { s.DeclineLeavesOpen = true }),
				closes: &end{order: order.OrderOpen, attempt: order.AttemptDeclined, declined: true, review: order.ReviewRepeatedFailure},
			},
			{
				name: "slowcancels", turns: []string{"SlowForeignCancels"}, set: turn(func(s *tosssim.Settings) { s.SlowForeignCancels = true }),
				also: func(w *world, tag string) {
					w.refundsFoundOut(tag, refunding{&tossForeign, refunders[2].write, refunders[2].read})
				},
			},
		},
		known: map[string]string{"ConfirmWindow": "documented", "ReadyWindow": "documented", "KeyTTL": "documented", "DepositWindow": "named by every account"},
	}
}

func providers() []provider {
	return []provider{stripeSwitches(), omiseSwitches(), twoctwopSwitches(), tossSwitches()}
}

// TestEverySwitchHasARun: a switch that is added to a simulator, or a choice that is added to a gateway, is run or has its reason.
func TestEverySwitchHasARun(t *testing.T) {
	t.Parallel()
	sb, err := server.New(server.Config{IssuerToken: secret.New("t"), WebhookSecret: secret.New("whsec_" + random(32))})
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, p := range providers() {
		seen[p.gateway] = true
		settings, _ := p.settings(sb)
		runs, short, names := map[string]bool{}, 0, map[string]bool{}
		for _, f := range p.flips {
			require.False(t, names[f.name], "%s: %s twice", p.gateway, f.name)
			names[f.name] = true
			for _, field := range f.turns {
				runs[field] = true
			}
			if f.short {
				short++
			}
			before, restore := p.settings(sb)
			f.set(sb)
			after, _ := p.settings(sb)
			changed := map[string]bool{}
			for i := range reflect.TypeOf(before).NumField() {
				if !reflect.DeepEqual(reflect.ValueOf(before).Field(i).Interface(), reflect.ValueOf(after).Field(i).Interface()) {
					changed[reflect.TypeOf(before).Field(i).Name] = true
				}
			}
			require.Len(t, changed, 1, "%s %s: switches are turned one at a time", p.gateway, f.name)
			require.True(t, changed[f.turns[0]], "%s %s turns what it says", p.gateway, f.name)
			restore()
		}
		require.Equal(t, 1, short, "%s: one switch is turned in the short run", p.gateway)
		for i := range reflect.TypeOf(settings).NumField() {
			name := reflect.TypeOf(settings).Field(i).Name
			require.NotEqual(t, runs[name], p.known[name] != "", "%s: the setting %s needs a run, or a reason to have none", p.gateway, name)
			delete(runs, name)
		}
		registration, ok := all.Find(p.gateway)
		require.True(t, ok)
		require.Equal(t, len(registration.Options) > 0, runs["options"], "%s: the gateway's choices need a run", p.gateway)
	}
	for _, r := range all.Registrations() {
		require.True(t, seen[r.Name], "%s has no list of switches", r.Name)
	}
}
