// Package scripts holds stories of money: two events of one order in every order of arrival, with notices that come once, twice,
// reversed or never, and one judgment of where each has to end.
//
// It must not know how Orderflow works: it speaks the HTTP API, acts at the simulated providers, and judges by their books and the
// issuers' against rows of our database. It may import sandbox packages and pgx; only tests import it.
package scripts

import "fmt"

// Telling says how what the providers tell about a script's events arrives.
type Telling string

// The tellings.
const (
	Once       Telling = "once"        // after each event, in order
	Twice      Telling = "twice"       // the same, each notice two times
	Together   Telling = "together"    // after all events, in order
	Reversed   Telling = "reversed"    // after all events, the last notice first
	Never      Telling = "never"       // all are lost: only a look finds out
	FirstLost  Telling = "first_lost"  // those of the first event are lost
	SecondLost Telling = "second_lost" // those of the second event are lost
)

// Tellings are all of them.
func Tellings() []Telling {
	return []Telling{Once, Twice, Together, Reversed, Never, FirstLost, SecondLost}
}

// Script is one story: what happens to one order, and how it is told.
type Script struct {
	ID      string // of the order: a letter and digits, so that it can stand in every provider's words
	Gateway string
	First   string // the pair
	Second  string
	Steps   []*Event // with what the pair needs before it
	Early   bool     // the buyer begins the deposit before everything else
	Telling Telling
	Issuer  string // "" = goods of our own only
}

// Name says what a script is about, for a person who reads that it failed.
func (s Script) Name() string {
	early, goods := "", "own goods"
	if s.Early {
		early = ", the deposit begun before"
	}
	if s.Issuer != "" {
		goods = s.Issuer
	}
	return fmt.Sprintf("%s at %s: %s then %s%s, told %s, %s", s.ID, s.Gateway, s.First, s.Second, early, s.Telling, goods)
}

// All is every script: each pair of events that exist at a provider, both ways round and an event with itself, in each telling, with
// and without goods of an issuer.
func All() []Script {
	var out []Script
	for _, p := range providers {
		for _, a := range events {
			for _, b := range events {
				if !a.existsAt(p) || !b.existsAt(p) {
					continue
				}
				for _, early := range []bool{false, true} {
					if early && b.Name != "deposit" || early && a.Name == "deposit" {
						continue
					}
					for _, telling := range Tellings() {
						for _, issuer := range []string{"tickets", ""} {
							out = append(out, Script{
								ID: fmt.Sprintf("s%05d", len(out)), Gateway: p.gateway, First: a.Name, Second: b.Name, Steps: steps(a, b, early),
								Early: early, Telling: telling, Issuer: issuer,
							})
						}
					}
				}
			}
		}
	}
	return out
}

// Spread is about n scripts of a list, taken evenly, and always the same ones.
func Spread(all []Script, n int) []Script {
	if n >= len(all) {
		return all
	}
	out := make([]Script, 0, n)
	for i := range n {
		out = append(out, all[i*len(all)/n])
	}
	return out
}

// Cover is n scripts of a list, and always the same ones, chosen so that as few as possible hold every pair of events, and every
// event in every telling and at every provider; then it begins anew, with others.
func Cover(all []Script, n int) []Script {
	if n >= len(all) {
		return all
	}
	out := make([]Script, 0, n)
	taken, met := make([]bool, len(all)), map[string]bool{}
	for len(out) < n {
		best, news := -1, 0
		for i, s := range all {
			if k := countNew(s, met); !taken[i] && k > news {
				best, news = i, k
			}
		}
		if best < 0 {
			clear(met)
			continue
		}
		taken[best] = true
		out = append(out, all[best])
		for _, f := range all[best].features() {
			met[f] = true
		}
	}
	return out
}

func countNew(s Script, met map[string]bool) int {
	n := 0
	for _, f := range s.features() {
		if !met[f] {
			n++
		}
	}
	return n
}

// features are what a choice of scripts should hold at least once.
func (s Script) features() [5]string {
	early := ""
	if s.Early {
		early = " early"
	}
	telling := string(s.Telling)
	return [...]string{s.First + ">" + s.Second + early, s.First + "/" + telling + s.Issuer, "/" + s.Second + "/" + telling, s.Gateway + "/" + s.First + ">", s.Gateway + ">" + s.Second + "/" + telling}
}

// steps puts before each event what it needs, unless an event before it brings that. Where the deposit was begun before, it stays the
// only payment there is.
func steps(a, b *Event, early bool) []*Event {
	if early {
		return []*Event{a, b}
	}
	var out []*Event
	has := map[need]bool{"": true}
	for _, e := range []*Event{a, b} {
		if before := event(string(e.Needs)); !has[e.Needs] {
			if e.Needs == needDeposit { // behind another payment it would be refused
				out = append([]*Event{before}, out...)
			} else {
				out = append(out, before)
			}
			before.brings(has)
		}
		out = append(out, e)
		e.brings(has)
	}
	return out
}
