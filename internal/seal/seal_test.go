package seal_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/internal/seal"
)

// keyText makes a key that differs by n. It is not random, which is fine for a test only.
func keyText(n byte) string {
	raw := make([]byte, 32)
	for i := range raw {
		raw[i] = byte(i)*7 + n
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func box(t require.TestingT, text string) *seal.Box {
	b, err := seal.ParseKeys(text)
	require.NoError(t, err)
	return b
}

const place = "operation/op_1"

func TestWhatIsSealedOpensAtItsPlaceOnly(t *testing.T) {
	t.Parallel()
	b := box(t, keyText(1))
	sealed := b.Seal([]byte("tok_mArKeR"), place)
	require.NotContains(t, string(sealed), "mArKeR")
	plain, err := b.Open(sealed, place)
	require.NoError(t, err)
	require.Equal(t, "tok_mArKeR", string(plain))
	for _, elsewhere := range []string{"", "operation/op_2", "operation/op_1 ", "peration/op_1"} {
		_, err := b.Open(sealed, elsewhere)
		require.ErrorIs(t, err, seal.ErrCannotOpen, elsewhere)
	}
	_, err = box(t, keyText(2)).Open(sealed, place)
	require.ErrorIs(t, err, seal.ErrCannotOpen, "another key under the same id")
}

func TestTheSameTextNeverLooksTheSame(t *testing.T) {
	t.Parallel()
	b := box(t, keyText(1))
	seen := map[string]bool{}
	for range 1000 {
		sealed := b.Seal([]byte("x"), place)
		require.False(t, seen[string(sealed)])
		seen[string(sealed)] = true
	}
}

func TestEveryChangedBitIsNoticed(t *testing.T) {
	t.Parallel()
	b := box(t, "a:"+keyText(1)+",b:"+keyText(2))
	sealed := b.Seal([]byte("secret"), place)
	for at := range sealed {
		for bit := range 8 {
			changed := bytes.Clone(sealed)
			changed[at] ^= 1 << bit
			_, err := b.Open(changed, place)
			require.Error(t, err, "byte %d bit %d", at, bit)
		}
	}
	for n := range sealed {
		_, err := b.Open(sealed[:n], place)
		require.Error(t, err, "cut to %d bytes", n)
	}
	_, err := b.Open(append(bytes.Clone(sealed), 0), place)
	require.ErrorIs(t, err, seal.ErrCannotOpen)
	_, err = b.Open(nil, place)
	require.ErrorIs(t, err, seal.ErrCannotOpen)
}

// A header that names the other key must not make its ciphertext pass, even at the same place.
func TestTheKeyIDIsAuthenticated(t *testing.T) {
	t.Parallel()
	b := box(t, "a:"+keyText(1)+",b:"+keyText(2))
	sealed := b.Seal([]byte("secret"), place)
	require.Equal(t, []byte{1, 1, 'a'}, sealed[:3], "version, length, id")
	sealed[2] = 'b'
	_, err := b.Open(sealed, place)
	require.ErrorIs(t, err, seal.ErrCannotOpen)
	sealed[2] = 'c'
	_, err = b.Open(sealed, place)
	require.ErrorIs(t, err, seal.ErrUnknownKey)
}

func TestRotation(t *testing.T) {
	t.Parallel()
	before := box(t, keyText(1))
	during := box(t, "2027:"+keyText(2)+", default:"+keyText(1))
	after := box(t, "2027:"+keyText(2))
	old := before.Seal([]byte("old"), place)
	plain, err := during.Open(old, place)
	require.NoError(t, err)
	require.Equal(t, "old", string(plain))

	fresh := during.Seal([]byte("new"), place)
	plain, err = after.Open(fresh, place)
	require.NoError(t, err, "the first key seals")
	require.Equal(t, "new", string(plain))
	_, err = after.Open(old, place)
	require.ErrorIs(t, err, seal.ErrUnknownKey)
	_, err = before.Open(fresh, place)
	require.ErrorIs(t, err, seal.ErrUnknownKey)

	token := []byte("tok_1")
	require.Equal(t, before.Fingerprint(token), during.Fingerprint(token), "stable while the last key is listed")
	require.NotEqual(t, before.Fingerprint(token), after.Fingerprint(token), "as documented")
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	b := box(t, keyText(1))
	require.Len(t, b.Fingerprint(nil), 32)
	require.Equal(t, b.Fingerprint([]byte("a")), b.Fingerprint([]byte("a")))
	require.NotEqual(t, b.Fingerprint([]byte("a")), b.Fingerprint([]byte("b")))
	require.NotEqual(t, b.Fingerprint([]byte("a")), box(t, keyText(2)).Fingerprint([]byte("a")), "keyed")
	// Stored fingerprints outlive releases: this value may change only together with its label.
	require.Equal(t, "f513be39d3b8", fmt.Sprintf("%x", b.Fingerprint([]byte("tok_1")))[:12])
}

func TestARowOfAnOlderReleaseOpens(t *testing.T) {
	t.Parallel()
	sealed, err := base64.StdEncoding.DecodeString(goldenSealed)
	require.NoError(t, err)
	plain, err := box(t, keyText(1)).Open(sealed, place)
	require.NoError(t, err)
	require.Equal(t, "golden", string(plain))
}

func TestAnythingComesBack(t *testing.T) {
	t.Parallel()
	b := box(t, "new:"+keyText(9)+",old:"+keyText(1))
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		aad := rapid.String().Draw(t, "aad")
		back, err := b.Open(b.Seal(plain, aad), aad)
		if err != nil || !bytes.Equal(plain, back) {
			t.Fatalf("%v", err)
		}
		_, _ = b.Open(plain, aad) // rubbish must not panic
	})
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	b := box(t, keyText(1))
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			text := fmt.Sprint(n)
			plain, err := b.Open(b.Seal([]byte(text), text), text)
			if err != nil || string(plain) != text {
				t.Errorf("%s: %v", text, err)
			}
		})
	}
	wg.Wait()
}

func TestKeysAreRead(t *testing.T) {
	t.Parallel()
	std := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xfb, 0xff}, 16))
	url := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0xfb, 0xff}, 16))
	require.NotEqual(t, std, url)
	plain, err := box(t, "k:"+url).Open(box(t, " k:"+std+" ").Seal([]byte("x"), place), place)
	require.NoError(t, err)
	require.Equal(t, "x", string(plain))
}

func TestKeysThatDoNotStart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, says string }{
		"Nothing":        {"", "openssl rand"},
		"Space":          {"  ", "openssl rand"},
		"NotBase64":      {"mArKeR!mArKeR!", "not base64"},
		"TooShort":       {base64.StdEncoding.EncodeToString([]byte("mArKeR-short")), "has 12 bytes and needs 32"},
		"TooLong":        {base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("mArKeR64"), 8)), "has 64 bytes"},
		"EmptyKey":       {"a:", "has 0 bytes"},
		"EmptyID":        {":" + keyText(1), "needs an id"},
		"OddID":          {"a b:" + keyText(1), "needs an id"},
		"LongID":         {strings.Repeat("a", 33) + ":" + keyText(1), "needs an id"},
		"TrailingComma":  {"a:" + keyText(1) + ",", "key number 2 has 0 bytes"},
		"SameIDTwice":    {"a:" + keyText(1) + ",a:" + keyText(2), "key number 2 has the id"},
		"TwoWithoutID":   {keyText(1) + "," + keyText(2), "key number 2 has the id"},
		"SameKeyTwice":   {"a:" + keyText(1) + ",b:" + keyText(1), "a rotation needs a new key"},
		"AllZero":        {base64.StdEncoding.EncodeToString(make([]byte, 32)), "over and over"},
		"SecondIsBroken": {"a:" + keyText(1) + ",b:mArKeR", "key number 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := seal.ParseKeys(tc.in)
			require.Nil(t, b)
			require.ErrorContains(t, err, tc.says)
			require.ErrorContains(t, err, seal.Variable)
			for _, hidden := range []string{"mArKeR", keyText(1), keyText(2)} {
				require.NotContains(t, err.Error(), hidden)
			}
		})
	}
}

func TestABoxPrintsNoKey(t *testing.T) {
	t.Parallel()
	b := box(t, keyText(1))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		require.Equal(t, `seal.Box(first key "default" of 1)`, fmt.Sprintf(verb, b), verb)
	}
}

func BenchmarkSealAndOpen(bench *testing.B) {
	b := box(bench, keyText(1))
	text := bytes.Repeat([]byte("x"), 512)
	for bench.Loop() {
		if _, err := b.Open(b.Seal(text, place), place); err != nil {
			bench.Fatal(err)
		}
	}
}

// goldenSealed was made by the first release for keyText(1).
const goldenSealed = "AQdkZWZhdWx0iGC3w+0mQfOwc70dACF4G04Ece5X4PIzH3Dl7SOVHIZ1/Q=="
