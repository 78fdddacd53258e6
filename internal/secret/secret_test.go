package secret_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"testing"

	"orderflow/internal/secret"
)

const marker = "mArKeR-7f3a"

type config struct {
	Name     string
	Exported secret.Value
	Pointer  *secret.Value
	hidden   secret.Value
	list     []secret.Value
	byName   map[string]secret.Value
	inner    struct{ deep secret.Value }
}

func newConfig() config {
	v := secret.New(marker)
	c := config{Name: "psp", Exported: v, Pointer: &v, hidden: v, list: []secret.Value{v}, byName: map[string]secret.Value{"a": v}}
	c.inner.deep = v
	return c
}

// assertNoMarker also looks for the forms that %x, %q and byte lists would give the text.
func assertNoMarker(t *testing.T, where, out string) {
	t.Helper()
	for _, form := range []string{
		marker, fmt.Sprintf("%x", marker), fmt.Sprintf("%X", marker), fmt.Sprintf("% x", marker),
		strings.Trim(fmt.Sprint([]byte(marker)), "[]"),
	} {
		if strings.Contains(out, form) {
			t.Errorf("%s shows the secret: %s", where, out)
		}
	}
}

func TestNoVerbShowsTheText(t *testing.T) {
	t.Parallel()
	v := secret.New(marker)
	c := newConfig()
	for _, flags := range []string{"", "+", "#", " ", "-30", "030", ".3", "+#"} {
		for verb := rune('A'); verb <= 'z'; verb++ {
			if verb > 'Z' && verb < 'a' {
				continue
			}
			format := "%" + flags + string(verb)
			for name, arg := range map[string]any{
				"Value": v, "Pointer": &v, "Struct": c, "StructPointer": &c, "Slice": []secret.Value{v},
				"Map": map[string]secret.Value{"k": v}, "Key": map[secret.Value]int{v: 1}, "Any": []any{v, c},
			} {
				assertNoMarker(t, format+" of "+name, fmt.Sprintf(format, arg))
			}
		}
	}
	if got := fmt.Sprint(v); got != "[redacted]" {
		t.Errorf("prints as %q", got)
	}
	assertNoMarker(t, "Println", fmt.Sprintln(v, &v, c))
}

func TestNoErrorShowsTheText(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("outer: %w", errors.Join(fmt.Errorf("key %v of %+v", secret.New(marker), newConfig()), errors.New("x")))
	assertNoMarker(t, "error", err.Error())
}

func TestNoLogShowsTheText(t *testing.T) {
	t.Parallel()
	v := secret.New(marker)
	var out bytes.Buffer
	options := &slog.HandlerOptions{Level: slog.LevelDebug}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, options), slog.NewJSONHandler(&out, options)} {
		l := slog.New(h).With("bound", v)
		l.Info("m", "value", v, "pointer", &v, "config", newConfig(), "any", []any{v}, slog.Group("g", "in", v))
	}
	log.New(&out, "", 0).Println(v, newConfig())
	assertNoMarker(t, "log", out.String())
	if n := strings.Count(out.String(), "[redacted]"); n < 8 {
		t.Errorf("only %d placeholders in %s", n, out.String())
	}
}

func TestNoEncoderShowsTheText(t *testing.T) {
	t.Parallel()
	c := newConfig()
	out, err := json.Marshal(map[string]any{"c": c, "v": c.Exported, "list": []secret.Value{c.Exported}, "key": map[secret.Value]int{c.Exported: 1}})
	if err != nil {
		t.Fatal(err)
	}
	assertNoMarker(t, "json", string(out))
	if !bytes.Contains(out, []byte(`"v":"[redacted]"`)) {
		t.Errorf("json is %s", out)
	}
	out, err = xml.Marshal(c.Exported)
	if err != nil {
		t.Fatal(err)
	}
	assertNoMarker(t, "xml", string(out))
}

func TestAbsentSecretsAreNeverEqual(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		v     secret.Value
		plain string
		want  bool
	}{
		"Same":         {secret.New("a"), "a", true},
		"Other":        {secret.New("a"), "b", false},
		"Prefix":       {secret.New("ab"), "a", false},
		"AbsentLeft":   {secret.Value{}, "a", false},
		"AbsentRight":  {secret.New("a"), "", false},
		"AbsentBoth":   {secret.Value{}, "", false},
		"EmptyIsNone":  {secret.New(""), "", false},
		"PlaceHolders": {secret.New("a"), "[redacted]", false},
	} {
		if got := tc.v.Equal(tc.plain); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !secret.New("").IsZero() || secret.New("x").IsZero() || (secret.Value{}).Reveal() != "" || secret.New("x").Reveal() != "x" {
		t.Error("zero value and text are confused")
	}
}

func TestReadingFromText(t *testing.T) {
	t.Parallel()
	var v secret.Value
	if err := v.UnmarshalText([]byte(marker)); err != nil || v.Reveal() != marker {
		t.Errorf("%v", err)
	}
	if err := v.UnmarshalText(nil); err == nil {
		t.Error("an empty text must be refused")
	}
	var doc struct{ Key secret.Value }
	if err := json.Unmarshal([]byte(`{"Key":"`+marker+`"}`), &doc); err != nil || doc.Key.Reveal() != marker {
		t.Errorf("%v", err)
	}
	err := json.Unmarshal([]byte(`{"Key":["`+marker+`"]}`), &doc)
	if err == nil {
		t.Fatal("a list is no secret")
	}
	assertNoMarker(t, "json error", err.Error())
}
