// Package parts is what the simulated providers are alike in: their books, their buyers' pages, the address they are reached at.
//
// It must not know a provider or Orderflow: a simulator hands its own entries, words and forms in. It may import the standard
// library and sandbox/faults.
package parts

import (
	"html/template"
	"net/http"
	"strings"

	"orderflow/sandbox/faults"
)

// Matching copies the entries that match, in their order. It is never nil, so that it is a list in JSON.
func Matching[E any](entries []*E, matches func(*E) bool) []E {
	out := []E{}
	for _, e := range entries {
		if matches(e) {
			out = append(out, *e)
		}
	}
	return out
}

// Met is what a book says of a request before it is worked on: the fault that hit it, and the status that goes out where the
// fault keeps it from being worked on.
func Met(f *faults.Fault) (action string, status int) {
	if f == nil {
		return "", 0
	}
	if !f.Does() {
		status = f.Answered(0)
	}
	return string(f.Action), status
}

// Base is the address that a buyer's browser reaches the sandbox at: the public one, or the one the request came to.
func Base(public func() string, r *http.Request) string {
	if public != nil {
		if u := public(); u != "" {
			return strings.TrimSuffix(u, "/")
		}
	}
	return "http://" + r.Host
}

// Page makes a buyer's page of a title and a body; the body is a template too, and says .Sentence where nothing is left to do.
func Page(title, heading, body string) *template.Template {
	return template.Must(template.New("buyer").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>` + title + `</title><link rel="icon" href="data:,">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:32rem;margin:4rem auto;padding:0 1rem}button{font:inherit;padding:.6rem 1.2rem;margin-right:.6rem}</style>
</head><body>
<h1>` + heading + `</h1>
` + body + `
</body></html>
`))
}

// Show answers with a page. Its address is a secret, so no link on it tells where the buyer came from.
func Show(w http.ResponseWriter, page *template.Template, status int, data map[string]any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	_ = page.Execute(w, data)
}
