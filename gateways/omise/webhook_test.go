package omise

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"orderflow/gateways"
)

// signature is written down independently of the code under test.
func signature(key string, stamp int64, body []byte) string {
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, raw)
	mac.Write(strconv.AppendInt(nil, stamp, 10))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func sealed(key string, at time.Time, body []byte) gateways.Incoming {
	h := http.Header{"Content-Type": {"application/json"}}
	h.Set("Omise-Signature-Timestamp", strconv.FormatInt(at.Unix(), 10))
	h.Set("Omise-Signature", signature(key, at.Unix(), body))
	return gateways.Incoming{Header: h, Body: body, At: at}
}
