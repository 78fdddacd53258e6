package twoctwop

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"orderflow/gateways/shared"
	"orderflow/internal/secret"
)

// Every signed message of 2C2P is {"payload": token}, the token a JWT whose algorithm is fixed here in both directions:
// what a token says about itself never chooses how it is checked.
var signing = jwt.SigningMethodHS256

type envelope struct {
	Payload string `json:"payload"`
}

// rawClaims signs frozen bytes as they are.
type rawClaims struct {
	jwt.MapClaims
	raw []byte
}

// MarshalJSON hands the frozen bytes to the signer.
func (c rawClaims) MarshalJSON() ([]byte, error) { return c.raw, nil }

// seal signs frozen claims. The same claims give the same bytes, since HS256 draws nothing at random.
func seal(key secret.Value, claims []byte) ([]byte, error) {
	token, err := jwt.NewWithClaims(signing, rawClaims{raw: claims}).SignedString([]byte(key.Reveal()))
	if err != nil {
		return nil, errFrozen
	}
	return json.Marshal(envelope{Payload: token})
}

// unseal verifies a token and returns its claims, numbers kept as text. Times in it are not judged: 2C2P documents none. The
// claims are read by object, since the library takes the first of two documents and we take none.
func unseal(key secret.Value, token string) (fields, error) {
	parser := jwt.NewParser(jwt.WithValidMethods([]string{signing.Alg()}), jwt.WithJSONNumber(), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation())
	_, err := parser.ParseWithClaims(token, jwt.MapClaims{}, func(t *jwt.Token) (any, error) {
		if t.Method != signing || key.IsZero() {
			return nil, errSignature
		}
		return []byte(key.Reveal()), nil
	})
	if err != nil {
		return nil, errSignature
	}
	claims, err := base64.RawURLEncoding.Strict().DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		return nil, errSignature
	}
	return object(claims)
}

// fields are the members of one JSON object. What is missing, null or of another type reads as empty.
type fields map[string]any

// text reads a member that is a string, or a number as it was written.
func (f fields) text(key string) string {
	switch v := f[key].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// answer is a decoded reply.
type answer struct {
	fields
	signed bool
}

var codeShape = regexp.MustCompile(`^[A-Z0-9]{1,8}$`)

// code is the answer's respCode, empty where it does not look like one: codes go into errors and logs, sentences never do.
func (a answer) code() string { return word(a.text("respCode")) }

func word(s string) string {
	if !codeShape.MatchString(s) {
		return ""
	}
	return s
}

// open decodes a reply: a signed payload, or bare fields with a respCode. How far bare ones are believed is the caller's.
func open(key secret.Value, body []byte) (answer, error) {
	plain, err := object(body)
	if err != nil {
		return answer{}, err
	}
	if _, wrapped := plain["payload"]; wrapped {
		token := plain.text("payload")
		claims, err := unseal(key, token)
		if err != nil {
			return answer{}, err
		}
		if word(claims.text("respCode")) == "" {
			return answer{}, shared.ErrNoAnswer
		}
		return answer{fields: claims, signed: true}, nil
	}
	if word(plain.text("respCode")) == "" {
		return answer{}, shared.ErrNoAnswer
	}
	return answer{fields: plain}, nil
}

// object reads exactly one JSON object.
func object(body []byte) (fields, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var f fields
	if err := d.Decode(&f); err != nil || f == nil {
		return nil, shared.ErrNoAnswer
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, shared.ErrNoAnswer
	}
	return f, nil
}
