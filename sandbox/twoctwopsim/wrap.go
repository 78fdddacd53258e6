package twoctwopsim

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"orderflow/internal/secret"
)

// A JWT with HS256, by hand: the gateway under test uses a library, and an oracle should not share it.

var encoding = base64.RawURLEncoding.Strict()

func mac(key secret.Value, signed string) []byte {
	h := hmac.New(sha256.New, []byte(key.Reveal()))
	_, _ = h.Write([]byte(signed))
	return h.Sum(nil)
}

func sign(key secret.Value, claims any) (string, error) {
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed := encoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encoding.EncodeToString(body)
	return signed + "." + encoding.EncodeToString(mac(key, signed)), nil
}

// peek reads the claims without believing them, to find the merchant.
func peek(jwt string) (claims []byte, ok bool) {
	part := strings.Split(jwt, ".")
	if len(part) != 3 {
		return nil, false
	}
	claims, err := encoding.DecodeString(part[1])
	return claims, err == nil
}

// verified reports that a token is signed with HS256 by the key.
func verified(key secret.Value, jwt string) bool {
	part := strings.Split(jwt, ".")
	if len(part) != 3 {
		return false
	}
	raw, err := encoding.DecodeString(part[0])
	if err != nil {
		return false
	}
	var header struct {
		Alg string `json:"alg"`
	}
	if json.Unmarshal(raw, &header) != nil || header.Alg != "HS256" {
		return false
	}
	sent, err := encoding.DecodeString(part[2])
	return err == nil && hmac.Equal(sent, mac(key, part[0]+"."+part[1]))
}

// object is one decoded JSON object, numbers as they were written.
type object map[string]any

func decodeObject(raw []byte) (object, bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var o object
	if d.Decode(&o) != nil || o == nil {
		return nil, false
	}
	return o, true
}

func (o object) text(key string) string {
	switch v := o[key].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

func (o object) child(key string) object {
	m, _ := o[key].(map[string]any)
	return m
}
