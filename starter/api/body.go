package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"

	"orderflow/internal/cleantext"
)

// MaxBody is how many bytes a request body may have.
const MaxBody = 2 << 20

type bodyKey struct{}

// bodyOf returns the raw body that readBody kept.
func bodyOf(r *http.Request) []byte {
	b, _ := r.Context().Value(bodyKey{}).([]byte)
	return b
}

// readBody reads the raw body once, bounded, and keeps it: the idempotency guard and the checks below see the same bytes.
func readBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > MaxBody {
			problem(typeTooLarge, "").write(w)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
		var tooLarge *http.MaxBytesError
		var slow net.Error
		switch {
		case errors.As(err, &tooLarge):
			problem(typeTooLarge, "").write(w)
			return
		case errors.As(err, &slow) && slow.Timeout():
			problem(typeTooSlow, "").write(w)
			return
		case err != nil:
			problem(typeMalformed, "The body could not be read to its end.").write(w)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, body))
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// checkBody refuses what two JSON readers could take differently, before any of them reads it.
func (a *API) checkBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		charset := strings.ToLower(params["charset"])
		if err != nil || media != "application/json" || (charset != "" && charset != "utf-8") || r.Header.Get("Content-Encoding") != "" {
			problem(typeNotJSON, "").write(w)
			return
		}
		body := bodyOf(r)
		if err := cleantext.Check(body); err != nil {
			problem(typeMalformed, "The body is refused: "+err.Error()+".").write(w)
			return
		}
		if at := firstFraction(body); at >= 0 {
			problem(typeValidation, "", FieldError{a.locate(body), "must be a whole number of minor units, without point or exponent (" +
				fmt.Sprintf("at byte %d of the body", at) + ")"}).write(w)
			return
		}
		r.Header.Set("Content-Type", media) // however it was written
		next.ServeHTTP(w, r)
	})
}

// firstFraction finds the first number of a sound JSON text that is not a plain whole number of 64 bits, or -1. Every number
// of this API counts minor units or pieces; 17.99 read as a float is where cents get lost.
func firstFraction(raw []byte) int {
	for at := 0; at < len(raw); at++ {
		switch c := raw[at]; {
		case c == '"':
			for at++; raw[at] != '"'; at++ {
				if raw[at] == '\\' {
					at++
				}
			}
		case c == '-' || (c >= '0' && c <= '9'):
			start := at
			for at < len(raw) && strings.IndexByte("+-.eE0123456789", raw[at]) >= 0 {
				at++
			}
			if !whole(string(raw[start:at])) {
				return start
			}
			at--
		}
	}
	return -1
}

func whole(number string) bool {
	_, err := strconv.ParseInt(number, 10, 64)
	return err == nil
}

// locate names the field of the first number that is not whole. It names only fields this API knows, so that nothing of
// the input comes back.
func (a *API) locate(raw []byte) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return "body"
	}
	path := "body"
	fractionPath(v, "body", &path)
	return a.known(path)
}

func fractionPath(v any, at string, found *string) bool {
	switch x := v.(type) {
	case json.Number:
		if !whole(x.String()) {
			*found = at
			return true
		}
	case []any:
		for i, e := range x {
			if fractionPath(e, fmt.Sprintf("%s[%d]", at, i), found) {
				return true
			}
		}
	case map[string]any:
		for k, e := range x {
			if fractionPath(e, at+"."+k, found) {
				return true
			}
		}
	}
	return false
}

// known cuts a path at the first part that is no field of this API.
func (a *API) known(path string) string {
	parts := strings.Split(path, ".")
	for i, p := range parts {
		name, index, _ := strings.Cut(p, "[")
		if !a.fields[name] || strings.Trim(index, "0123456789]") != "" {
			if i == 0 {
				return "request"
			}
			return strings.Join(parts[:i], ".")
		}
	}
	return path
}
