package stripesim

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// params are decoded form parameters. Names keep their brackets: "metadata[order]", "expand[]".
type params struct{ url.Values }

func parseParams(encoded string) (params, *apiError) {
	v, err := url.ParseQuery(encoded)
	if err != nil {
		return params{}, badParameter("", "", "Invalid request: the parameters cannot be decoded as a form.")
	}
	for name, values := range v {
		if !utf8.ValidString(name) {
			return params{}, badParameter("", "", "Invalid UTF-8 in a parameter name.")
		}
		if i := strings.IndexByte(name, '['); i == 0 || (i > 0 && !strings.HasSuffix(name, "]")) {
			return params{}, badParameter("parameter_unknown", name, "Received unknown parameter: %s", name)
		}
		for _, s := range values {
			if !utf8.ValidString(s) {
				return params{}, badParameter("", name, "Invalid UTF-8 in %s.", name)
			}
		}
	}
	return params{v}, nil
}

func top(name string) string {
	name, _, _ = strings.Cut(name, "[")
	return name
}

// known refuses parameters that the endpoint does not have, as Stripe does.
func (p params) known(names ...string) *apiError {
	for name := range p.Values {
		if !slices.Contains(names, top(name)) {
			return badParameter("parameter_unknown", name, "Received unknown parameter: %s", name)
		}
	}
	return nil
}

// text returns the last value, as a form with a repeated name means it.
func (p params) text(name string) string {
	if v := p.Values[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

func (p params) has(name string) bool { return len(p.Values[name]) > 0 }

func (p params) hasUnder(name string) bool {
	for k := range p.Values {
		if top(k) == name {
			return true
		}
	}
	return false
}

// under returns metadata[a]=1 as {"a": "1"}.
func (p params) under(name string) map[string]string {
	out := map[string]string{}
	for k, v := range p.Values {
		rest, ok := strings.CutPrefix(k, name+"[")
		if !ok || len(v) == 0 {
			continue
		}
		out[strings.TrimSuffix(rest, "]")] = v[len(v)-1]
	}
	return out
}

// list returns name[]=a and name[0]=a.
func (p params) list(name string) []string {
	out := slices.Clone(p.Values[name+"[]"])
	for i := 0; ; i++ {
		v, ok := p.Values[name+"["+strconv.Itoa(i)+"]"]
		if !ok {
			return out
		}
		out = append(out, v...)
	}
}

// integer reads a plain decimal integer; ok is false when the parameter is absent.
func (p params) integer(name string) (n int64, ok bool, bad *apiError) {
	if !p.has(name) {
		return 0, false, nil
	}
	s := p.text(name)
	if s == "" {
		return 0, false, badParameter("parameter_invalid_empty", name, "You passed an empty string for '%s'. We assume empty values are an attempt to unset a parameter; however '%s' cannot be unset.", name, name)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || s[0] == '+' {
		return 0, false, badParameter("parameter_invalid_integer", name, "Invalid integer: %s", s)
	}
	return n, true, nil
}

func (p params) boolean(name string) (bool, *apiError) {
	switch p.text(name) {
	case "":
		return false, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, badParameter("", name, "Invalid boolean: %s", p.text(name))
}

// metadata enforces Stripe's limits: 50 keys of 40 characters with values of 500.
func (p params) metadata() (map[string]string, *apiError) {
	m := p.under("metadata")
	if len(m) > 50 {
		return nil, badParameter("", "metadata", "Metadata can have at most 50 keys.")
	}
	for k, v := range m {
		switch {
		case k == "" || strings.ContainsAny(k, "[]"):
			return nil, badParameter("", "metadata", "Metadata keys must not be empty or contain square brackets.")
		case utf8.RuneCountInString(k) > 40:
			return nil, badParameter("", "metadata", "Metadata keys must be at most 40 characters long.")
		case utf8.RuneCountInString(v) > 500:
			return nil, badParameter("", "metadata["+k+"]", "Metadata values must be at most 500 characters long.")
		case v == "":
			delete(m, k) // an empty value unsets a key
		}
	}
	return m, nil
}

func webAddress(name, s string) *apiError {
	if s == "" {
		return nil
	}
	if u, err := url.Parse(s); err != nil || u.Scheme == "" || u.Host == "" {
		return badParameter("url_invalid", name, "Not a valid URL")
	}
	return nil
}
