// Package seal encrypts what must be stored but not read: payment tokens, a provider's per-payment secret, stored answers.
//
// It must not know what it seals nor where it is stored: the caller names the place as associated data.
// It may import only the standard library.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Variable is the environment variable that ParseKeys reads the text of.
const Variable = "ORDERFLOW_DATA_KEY"

// DefaultKeyID is the id of a key that was given without one.
const DefaultKeyID = "default"

// version is the first byte of everything sealed; another scheme gets another one.
const version = 1

const (
	keySize   = 32
	nonceSize = 12
	maxKeyID  = 32
)

// Errors of Open. They are told apart so that an operator knows whether to put a key back or to look for a changed row.
var (
	ErrUnknownKey = errors.New("sealed with a key that is not among the keys of " + Variable)
	ErrCannotOpen = errors.New("the sealed value was changed, cut, or belongs to another place")
)

// Box seals and opens. It is safe for concurrent use and prints nothing of its keys.
type Box struct {
	first  *key
	byID   map[string]*key
	prints []byte // HMAC key of Fingerprint
}

type key struct {
	id   string
	aead cipher.AEAD
}

// ParseKeys reads the keys, "id:base64" separated by commas, each 32 bytes. The first one seals; all of them open. A single
// key may come without an id and is then called "default".
//
// To rotate, put a new key in front ("2027:NEW,default:OLD"). A key may be dropped when nothing sealed with it is left.
// The last key is also the root of Fingerprint: it stays last as long as old fingerprints are compared with new ones.
//
// Errors say what to set and never quote a key.
func ParseKeys(text string) (*Box, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New(Variable + " is not set: set it to 32 random bytes in base64, such as the output of \"openssl rand -base64 32\"")
	}
	b := &Box{byID: map[string]*key{}}
	seen := map[[sha256.Size]byte]bool{}
	var last []byte
	for n, entry := range strings.Split(text, ",") {
		id, encoded, named := strings.Cut(strings.TrimSpace(entry), ":")
		if !named {
			id, encoded = DefaultKeyID, id
		}
		bad := func(what string) error { return fmt.Errorf("%s: key number %d %s", Variable, n+1, what) }
		if id == "" || len(id) > maxKeyID || strings.Trim(id, idChars) != "" {
			return nil, bad("needs an id of 1 to 32 letters, digits, \"-\", \"_\" or \".\" before the colon")
		}
		raw, err := decode(encoded)
		switch {
		case err != nil:
			return nil, bad("is not base64; use the output of \"openssl rand -base64 32\"")
		case len(raw) != keySize:
			return nil, bad(fmt.Sprintf("has %d bytes and needs %d; use the output of \"openssl rand -base64 32\"", len(raw), keySize))
		case bytes.Count(raw, raw[:1]) == keySize:
			return nil, bad("is one byte over and over; use the output of \"openssl rand -base64 32\"")
		case b.byID[id] != nil:
			return nil, bad("has the id of an earlier one; give each key its own")
		case seen[sha256.Sum256(raw)]:
			return nil, bad("is an earlier one under another id; a rotation needs a new key")
		}
		seen[sha256.Sum256(raw)] = true
		k, err := newKey(id, raw)
		if err != nil {
			return nil, bad("cannot be used: " + err.Error())
		}
		b.byID[id] = k
		if b.first == nil {
			b.first = k
		}
		last = raw
	}
	prints, err := hkdf.Key(sha256.New, last, nil, "orderflow fingerprint 1", sha256.Size)
	if err != nil {
		return nil, err
	}
	b.prints = prints
	return b, nil
}

const idChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// decode takes both alphabets of base64, with or without padding.
func decode(s string) ([]byte, error) {
	s = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "=")
	return base64.RawStdEncoding.Strict().DecodeString(s)
}

// newKey derives the encryption key, so that no two uses share one: fingerprints come from the same root.
func newKey(id string, root []byte) (*key, error) {
	derived, err := hkdf.Key(sha256.New, root, nil, "orderflow seal 1", keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &key{id: id, aead: aead}, nil
}

// Seal encrypts with the first key. aad names the place the value is stored at, such as "operation/op_1": the value opens
// there only, so that a row copied over another one does not pass. Nonces are random, which is safe for some four
// thousand million values per key; rotate before.
//
// The form is: version (1 byte), length of the key id (1), key id, nonce (12), ciphertext with tag (16 more than the text).
func (b *Box) Seal(plain []byte, aad string) []byte {
	header := append([]byte{version, byte(len(b.first.id))}, b.first.id...)
	out := make([]byte, len(header)+nonceSize, len(header)+nonceSize+len(plain)+b.first.aead.Overhead())
	copy(out, header)
	nonce := out[len(header):]
	_, _ = rand.Read(nonce) // never fails: the runtime ends the process when the system has no randomness
	return b.first.aead.Seal(out, nonce, plain, bind(header, aad))
}

// Open decrypts what Seal made for the same place, with whichever key sealed it.
func (b *Box) Open(sealed []byte, aad string) ([]byte, error) {
	if len(sealed) < 2 || sealed[0] != version {
		return nil, ErrCannotOpen
	}
	headerEnd := 2 + int(sealed[1])
	if len(sealed) < headerEnd+nonceSize {
		return nil, ErrCannotOpen
	}
	header, nonce, body := sealed[:headerEnd], sealed[headerEnd:headerEnd+nonceSize], sealed[headerEnd+nonceSize:]
	k := b.byID[string(header[2:])]
	if k == nil {
		return nil, ErrUnknownKey
	}
	plain, err := k.aead.Open(nil, nonce, body, bind(header, aad))
	if err != nil {
		return nil, ErrCannotOpen
	}
	return plain, nil
}

// bind authenticates the header together with the place. The header says its own length, so no two pairs look alike.
func bind(header []byte, aad string) []byte {
	return append(append(make([]byte, 0, len(header)+len(aad)), header...), aad...)
}

// Fingerprint is a keyed digest (HMAC-SHA256, 32 bytes) for telling whether two texts are the same without storing either.
// Without the key it is no oracle: a stolen table cannot be searched with guessed tokens.
//
// It is stable over a rotation because its key is derived from the last listed key, the oldest, and a rotation puts the
// new key in front. Once the last key is dropped, fingerprints made before match nothing made after.
func (b *Box) Fingerprint(plain []byte) []byte {
	mac := hmac.New(sha256.New, b.prints)
	mac.Write(plain)
	return mac.Sum(nil)
}

// String names the keys by id. It is also what every verb of fmt prints.
func (b *Box) String() string {
	return fmt.Sprintf("seal.Box(first key %q of %d)", b.first.id, len(b.byID))
}

// Format covers %#v and %x too.
func (b *Box) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(b.String())) }
