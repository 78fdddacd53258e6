package gatewaytest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// absent as a value takes the field away.
type absent struct{}

func decode(t *testing.T, body []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return v
}

// edit sets one place of a JSON document; path is "data.object.id".
func edit(t *testing.T, body []byte, path string, value any) []byte {
	t.Helper()
	root := decode(t, body)
	steps := strings.Split(path, ".")
	at := root
	for _, s := range steps[:len(steps)-1] {
		switch v := at.(type) {
		case map[string]any:
			at = v[s]
		case []any:
			i, err := strconv.Atoi(s)
			require.NoError(t, err)
			at = v[i]
		}
	}
	last := steps[len(steps)-1]
	switch v := at.(type) {
	case map[string]any:
		v[last] = value
		if _, gone := value.(absent); gone {
			delete(v, last)
		}
	case []any:
		i, err := strconv.Atoi(last)
		require.NoError(t, err)
		v[i] = value
	default:
		t.Fatalf("there is no %s in the body", path)
	}
	out, err := json.Marshal(root)
	require.NoError(t, err)
	return out
}

// paths are all places of a JSON document, sorted. Keys that hold a dot are left out.
func paths(t *testing.T, body []byte) []string {
	t.Helper()
	var out []string
	var walk func(prefix string, v any)
	add := func(prefix, key string, v any) {
		if strings.Contains(key, ".") {
			return
		}
		path := strings.TrimPrefix(prefix+"."+key, ".")
		out = append(out, path)
		walk(path, v)
	}
	walk = func(prefix string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, inner := range v {
				add(prefix, k, inner)
			}
		case []any:
			for i, inner := range v {
				add(prefix, strconv.Itoa(i), inner)
			}
		}
	}
	walk("", decode(t, body))
	slices.Sort(out)
	return out
}
