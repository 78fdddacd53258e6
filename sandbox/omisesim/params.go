package omisesim

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// params are a request's parameters: the query, and over it the body, since omise-go puts the parameters of a GET into a
// JSON body. Form fields with brackets become nested objects.
type params map[string]any

func readParams(hr *http.Request, body []byte) (params, *apiError) {
	p := params{}
	p.form(hr.URL.Query())
	if len(body) == 0 {
		return p, nil
	}
	kind, _, _ := strings.Cut(hr.Header.Get("Content-Type"), ";")
	switch strings.TrimSpace(kind) {
	case "application/x-www-form-urlencoded":
		v, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, badRequest("the request body cannot be decoded as a form")
		}
		p.form(v)
	default:
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		var fields map[string]any
		if err := d.Decode(&fields); err != nil || d.More() {
			return nil, badRequest("the request body is not a JSON object")
		}
		for k, v := range fields {
			p[k] = v
		}
	}
	return p, nil
}

func (p params) form(v url.Values) {
	for name, values := range v {
		if len(values) == 0 {
			continue
		}
		last := values[len(values)-1]
		outer, inner, nested := strings.Cut(strings.TrimSuffix(name, "]"), "[")
		if !nested {
			p[name] = last
			continue
		}
		object, ok := p[outer].(map[string]any)
		if !ok {
			object = map[string]any{}
			p[outer] = object
		}
		object[inner] = last
	}
}

// text reads a string; a number or an object in its place is an error of the caller's.
func (p params) text(name string) (string, *apiError) {
	switch v := p[name].(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	}
	return "", badRequest("%s must be a string", name)
}

// integer reads a whole number; ok is false when it is absent.
func (p params) integer(name string) (n int64, ok bool, bad *apiError) {
	var raw string
	switch v := p[name].(type) {
	case nil:
		return 0, false, nil
	case json.Number:
		raw = v.String()
	case string:
		raw = v
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil {
		return 0, false, badRequest("%s must be an integer", name)
	}
	return n, true, nil
}

func (p params) boolean(name string, absent bool) (bool, *apiError) {
	switch v := p[name].(type) {
	case nil:
		return absent, nil
	case bool:
		return v, nil
	case string:
		if v == "true" || v == "false" {
			return v == "true", nil
		}
	}
	return false, badRequest("%s must be true or false", name)
}

func (p params) object(name string) (map[string]any, *apiError) {
	switch v := p[name].(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return v, nil
	}
	return nil, badRequest("%s must be an object", name)
}

func (p params) instant(name string, absent time.Time) (time.Time, *apiError) {
	raw, bad := p.text(name)
	if bad != nil || raw == "" {
		return absent, bad
	}
	at, err := time.Parse(time.RFC3339, raw)
	if err != nil {
		return absent, badRequest("%s must be a time in ISO 8601", name)
	}
	return at, nil
}
