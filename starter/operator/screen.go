package operator

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"orderflow/internal/money"
	"orderflow/order"
	"orderflow/store"
)

//go:embed static
var staticFiles embed.FS

//go:embed pages
var pageFiles embed.FS

// screen is what every page is made from. Data is the page's own.
type screen struct {
	Lang   string
	Who    *store.Operator // nil = nobody is logged in
	Now    time.Time
	At     string // the page's name
	Here   string // this page's address, to come back to
	Said   string // what the last form came to, as a key of the catalog; "" = nothing
	Data   any
	assets assets
}

func (o *Operator) screenOf(r *http.Request) *screen {
	s := &screen{Lang: languageOf(r), Now: o.d.Now().UTC(), Here: "/operator", assets: o.assets}
	if r.Method == http.MethodGet {
		q := r.URL.Query()
		if _, known := catalog["said."+q.Get("said")]; known {
			s.Said = "said." + q.Get("said")
		}
		q.Del("said")
		q.Del("seen")
		s.Here = ours(strings.TrimSuffix(r.URL.Path+"?"+q.Encode(), "?"))
	}
	return s
}

// Can reports whether the person may decide.
func (s *screen) Can() bool { return s.Who != nil && order.Role(s.Who.Role).Decides() }

// Approves reports whether the person may be the second one.
func (s *screen) Approves() bool { return s.Who != nil && order.Role(s.Who.Role).Approves() }

// T is a text of the catalog in the person's language.
func (s *screen) T(key string, args ...any) string { return say(s.Lang, key, args...) }

// Word is what a word of the domain is called, or the word itself where the catalog has no name for it.
func (s *screen) Word(kind string, word any) string {
	w := fmt.Sprint(word)
	if _, known := catalog[kind+"."+w]; known {
		return say(s.Lang, kind+"."+w)
	}
	return w
}

// Say is a sentence of the domain - a reason's meaning, what is forbidden - in the person's language.
func (s *screen) Say(english string) string { return sayDomain(s.Lang, english) }

// Why is the reason behind something forbidden, "" if nobody wrote one.
func (s *screen) Why(forbidden string) string { return sayWhy(s.Lang, forbidden) }

// Money is an amount with its currency, with the decimals that the currency has.
func (s *screen) Money(minor int64, currency string) string {
	if currency == "" {
		return ""
	}
	return money.Amount{Minor: minor, Currency: money.Currency(currency)}.String()
}

// Time is a moment in UTC: operators, providers and logs meet there.
func (s *screen) Time(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// Stamp is for machines, in a time element.
func (s *screen) Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Age is how long ago, in the largest unit that says something.
func (s *screen) Age(t time.Time) string {
	d := s.Now.Sub(t)
	switch {
	case d < 0:
		return s.T("age.in", s.span(-d))
	case d < time.Minute:
		return s.T("age.now")
	}
	return s.span(d)
}

func (s *screen) span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return s.T("age.seconds", int(d/time.Second))
	case d < time.Hour:
		return s.T("age.minutes", int(d/time.Minute))
	case d < 48*time.Hour:
		return s.T("age.hours", int(d/time.Hour), int(d/time.Minute)%60)
	}
	return s.T("age.days", int(d/(24*time.Hour)))
}

// Old is how much attention an age deserves: "", "warm" or "hot".
func (s *screen) Old(t time.Time) string {
	switch d := s.Now.Sub(t); {
	case d > 24*time.Hour:
		return "hot"
	case d > time.Hour:
		return "warm"
	}
	return ""
}

// Short cuts an id in its middle, for narrow columns; the whole stands in the title.
func (s *screen) Short(id any) string {
	const keep = 18
	text := fmt.Sprint(id)
	r := []rune(text)
	if len(r) <= keep {
		return text
	}
	return string(r[:9]) + "…" + string(r[len(r)-8:])
}

// Asset is the address of a file of ours, with its digest in it: it may be kept for good.
func (s *screen) Asset(name string) string {
	return "/operator/static/" + name + "?" + s.assets[name].digest
}

func escapeQuery(s string) string { return url.QueryEscape(s) }

type asset struct {
	body   []byte
	kind   string
	digest string
}

type assets map[string]asset

func loadAssets() assets {
	out := assets{}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	entries, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		panic("operator: the embedded files cannot be read") // they are part of the program: the first test would see it
	}
	for _, e := range entries {
		b, err := fs.ReadFile(staticFiles, "static/"+e.Name())
		if err != nil || kinds[path.Ext(e.Name())] == "" {
			panic("operator: an embedded file cannot be served: " + e.Name())
		}
		sum := sha256.Sum256(b)
		out[e.Name()] = asset{b, kinds[path.Ext(e.Name())], hex.EncodeToString(sum[:8])}
	}
	return out
}

func (o *Operator) static(w http.ResponseWriter, r *http.Request) {
	harden(w)
	a, known := o.assets[r.PathValue("name")]
	if !known {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "no-cache")
	if r.URL.RawQuery == a.digest {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(a.body)
}

// pages are the templates by name, each with the layout around it.
type pages map[string]*template.Template

func loadPages(a assets) pages {
	out := pages{}
	entries, err := fs.ReadDir(pageFiles, "pages")
	if err != nil {
		panic("operator: the embedded pages cannot be read")
	}
	shared := template.Must(template.New("").Funcs(template.FuncMap{"dict": dict}).ParseFS(pageFiles, "pages/part-*.html"))
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".html"); ok && !strings.HasPrefix(name, "part-") {
			out[name] = template.Must(template.Must(shared.Clone()).ParseFS(pageFiles, "pages/"+e.Name()))
		}
	}
	return out
}

// dict hands several values to a part of a page.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("a name without a value")
	}
	out := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("a name that is no text")
		}
		out[name] = pairs[i+1]
	}
	return out, nil
}

// show writes a page, or nothing of it.
func (o *Operator) show(w http.ResponseWriter, s *screen, status int, name string, data any) {
	s.Data, s.At = data, name
	var b bytes.Buffer
	if err := o.pages[name].ExecuteTemplate(&b, "layout", s); err != nil {
		o.d.Log.Error("a page cannot be written", "page", name, "error", err)
		http.Error(w, say(s.Lang, "error.internal"), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Language", s.Lang)
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// unchanged answers a live update whose page already shows all of this; otherwise the page is written anew.
func unchanged(w http.ResponseWriter, r *http.Request, print string) bool {
	if r.Header.Get("HX-Request") == "" || r.URL.Query().Get("seen") != print {
		return false
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

type refusalPage struct{ Key string }

// refuse says that a page cannot be had, and what to do.
func (o *Operator) refuse(w http.ResponseWriter, s *screen, status int, key string) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	o.show(w, s, status, "refusal", refusalPage{key})
}
