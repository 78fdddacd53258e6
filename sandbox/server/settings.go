package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode"

	"orderflow/sandbox/faults"
)

// configurable is a simulator whose switches can be turned while it runs.
type configurable[S any] interface {
	Settings() S
	Configure(change func(*S))
}

// settingsRoutes serves a simulator's settings: GET shows all of them, POST changes those that it names. Names are the
// settings' own in snake case, durations are text such as "1m30s".
func settingsRoutes[S any](mux *http.ServeMux, provider string, sim configurable[S]) {
	at := "/admin/" + provider + "/settings"
	show := func(w http.ResponseWriter) {
		have := sim.Settings()
		faults.JSON(http.StatusOK, shown(reflect.ValueOf(have))).Write(w)
	}
	mux.HandleFunc("GET "+at, func(w http.ResponseWriter, _ *http.Request) { show(w) })
	mux.HandleFunc("POST "+at, func(w http.ResponseWriter, r *http.Request) {
		var in map[string]json.RawMessage
		if !decode(w, r, &in) {
			return
		}
		var bad error
		sim.Configure(func(s *S) {
			next := *s
			if bad = set(reflect.ValueOf(&next).Elem(), in); bad == nil {
				*s = next
			}
		})
		if bad != nil {
			refuse(w, http.StatusBadRequest, bad.Error())
			return
		}
		show(w)
	})
}

var durationType = reflect.TypeFor[time.Duration]()

func shown(s reflect.Value) map[string]any {
	out := map[string]any{}
	for i := range s.NumField() {
		v := s.Field(i).Interface()
		if d, ok := v.(time.Duration); ok {
			v = d.String()
		}
		out[snake(s.Type().Field(i).Name)] = v
	}
	return out
}

// set changes the named fields, or says which of them it cannot.
func set(s reflect.Value, in map[string]json.RawMessage) error {
	for name, raw := range in {
		i := field(s.Type(), name)
		if i < 0 {
			return fmt.Errorf("there is no setting %q", name)
		}
		into := s.Field(i)
		if into.Type() != durationType {
			if err := json.Unmarshal(raw, into.Addr().Interface()); err != nil {
				return fmt.Errorf("the setting %q must be a %s", name, into.Type())
			}
			continue
		}
		var d span
		if err := json.Unmarshal(raw, &d); err != nil {
			return fmt.Errorf(`the setting %q must be a duration such as "1m30s"`, name)
		}
		into.SetInt(int64(d))
	}
	return nil
}

func field(t reflect.Type, name string) int {
	for i := range t.NumField() {
		if snake(t.Field(i).Name) == name {
			return i
		}
	}
	return -1
}

// snake writes KeyTTL as key_ttl.
func snake(name string) string {
	var b strings.Builder
	letters := []rune(name)
	for i, r := range letters {
		begins := i > 0 && unicode.IsUpper(r) && (unicode.IsLower(letters[i-1]) || (i+1 < len(letters) && unicode.IsLower(letters[i+1])))
		if begins {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
