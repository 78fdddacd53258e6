package twoctwopsim

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"encoding/xml"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
)

type processRequest struct {
	XMLName      xml.Name `xml:"PaymentProcessRequest"`
	Version      string   `xml:"version"`
	TimeStamp    string   `xml:"timeStamp"`
	MerchantID   string   `xml:"merchantID"`
	InvoiceNo    string   `xml:"invoiceNo"`
	ActionAmount string   `xml:"actionAmount"`
	ProcessType  string   `xml:"processType"`
}

type processResponse struct {
	XMLName     xml.Name    `xml:"PaymentProcessResponse"`
	Version     string      `xml:"version"`
	TimeStamp   string      `xml:"timeStamp"`
	RespCode    string      `xml:"respCode"`
	RespDesc    string      `xml:"respDesc"`
	ProcessType string      `xml:"processType"`
	MerchantID  string      `xml:"merchantID"`
	InvoiceNo   string      `xml:"invoiceNo"`
	Amount      string      `xml:"amount,omitempty"`
	Status      string      `xml:"status,omitempty"`
	ReferenceNo string      `xml:"referenceNo,omitempty"`
	DateTime    string      `xml:"transactionDateTime,omitempty"`
	Refunds     []refundXML `xml:"refundList>refund,omitempty"`
}

type refundXML struct {
	Amount      string `xml:"amount"`
	Status      string `xml:"status"`
	ReferenceNo string `xml:"referenceNo"`
	DateTime    string `xml:"dateTime"`
}

// stamp is a time as 2C2P writes it.
func stamp(t time.Time) string {
	return t.In(time.FixedZone("ICT", 7*60*60)).Format("20060102150405")
}

var reads = map[string]bool{"I": true, "RS": true}

// serveMaintenance serves the Payment Action API. What cannot be unwrapped is answered in plain text, since nothing is known
// about whom to encrypt to.
func (s *Sim) serveMaintenance(w http.ResponseWriter, hr *http.Request, body []byte) {
	if s.key == nil || hr.Method != http.MethodPost {
		http.NotFound(w, hr)
		return
	}
	document, signer := s.unwrap(body)
	var req processRequest
	ok := document != nil && xml.Unmarshal(document, &req) == nil && req.MerchantID == signer
	seen := document
	if !ok {
		seen = body
	}
	fault := s.cfg.Faults.Take(faults.TwoCTwoP, hr.Method, hr.URL.Path, seen)
	entry := s.arriveMaintenance(req, hr.URL.Path, body, seen, fault)
	s.cfg.Faults.Carry(w, hr, faults.TwoCTwoP, fault, func() faults.Answer {
		if !ok {
			return faults.Answer{Status: http.StatusOK, Body: []byte("96"), Header: map[string]string{"Content-Type": "text/plain"}}
		}
		return s.maintain(req, fault, entry)
	})
}

func (s *Sim) arriveMaintenance(req processRequest, path string, body, seen []byte, f *faults.Fault) *WriteEntry {
	e := &WriteEntry{
		At: s.cfg.Now(), Account: req.MerchantID, Path: path, InvoiceNo: req.InvoiceNo, Process: req.ProcessType, Body: string(body), Claims: string(seen),
	}
	if f != nil {
		e.Fault = string(f.Action)
	}
	if reads[req.ProcessType] {
		s.reads.Add(1)
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeSeq++
	e.Seq = s.writeSeq
	s.book.writes = append(s.book.writes, e)
	return e
}

func (s *Sim) maintain(req processRequest, f *faults.Fault, entry *WriteEntry) faults.Answer {
	if f.Is(faults.Slow) && !s.cfg.Faults.Wait(f) {
		return faults.Answer{Status: http.StatusServiceUnavailable}
	}
	s.mu.Lock()
	res := processResponse{
		Version: "4.3", TimeStamp: stamp(s.cfg.Now()), ProcessType: req.ProcessType, MerchantID: req.MerchantID, InvoiceNo: req.InvoiceNo,
	}
	s.advance(s.cfg.Now())
	switch {
	case f.Is(faults.StoreError) && !f.Effect:
		res.RespCode = "99"
	case f.Is(faults.Refuse):
		if res.RespCode = f.Code; res.RespCode == "" {
			res.RespCode = "41"
		}
	default:
		res.RespCode = s.process(req, &res)
		entry.Executed = res.RespCode == "00" && !reads[req.ProcessType]
		if f.Is(faults.StoreError) {
			res.RespCode, res.Refunds = "99", nil
		}
	}
	res.RespDesc = describeCode(res.RespCode)
	entry.RespCode = res.RespCode
	entry.Status = f.Answered(http.StatusOK)
	s.mu.Unlock()
	document, err := xml.Marshal(res)
	if err != nil {
		return faults.Answer{Status: http.StatusInternalServerError}
	}
	body, err := s.wrap(req.MerchantID, document)
	if err != nil {
		return faults.Answer{Status: http.StatusInternalServerError}
	}
	return faults.Answer{Status: http.StatusOK, Body: body, Header: map[string]string{"Content-Type": "text/plain"}}
}

// process does one action and returns its respCode. It expects the lock to be held.
func (s *Sim) process(req processRequest, res *processResponse) string {
	in := s.invoices[invoiceKey(req.MerchantID, req.InvoiceNo)]
	if in == nil || (in.code == "" && req.ProcessType != "I") {
		return "16"
	}
	if in.status == "A" && s.settings.SettlesAtOnce {
		in.status = "S"
	}
	code := "01"
	switch req.ProcessType {
	case "I", "RS":
		code = "00"
	case "V":
		code = s.void(in)
	case "S":
		code = s.settle(in, req.ActionAmount)
	case "R":
		code = s.refund(in, req.ActionAmount)
	}
	if code != "00" {
		return code
	}
	minor := in.minor
	if in.received != 0 {
		minor = in.received
	}
	res.Amount = formatAmount(minor, in.currency, s.settings.PadAmounts)
	res.Status, res.ReferenceNo = in.status, in.tranRef
	res.DateTime = stamp(in.at)
	if req.ProcessType == "RS" && s.settings.NoRefundList {
		return "12"
	}
	if req.ProcessType == "RS" {
		for _, r := range in.refunds {
			res.Refunds = append(res.Refunds, refundXML{
				Amount: formatAmount(r.minor, in.currency, s.settings.PadAmounts), Status: r.status, ReferenceNo: r.reference, DateTime: stamp(r.at),
			})
		}
	}
	return code
}

func (s *Sim) void(in *invoice) string {
	switch in.status {
	case "V":
		return "29"
	case "A":
		in.status = "V"
		in.charge.Voided = true
		in.charge.Captured = 0
		return "00"
	}
	return "12"
}

func (s *Sim) settle(in *invoice, amount string) string {
	minor, ok := parseAmount(amount, in.currency)
	switch {
	case in.status == "S":
		return "39"
	case in.status != "A":
		return "12"
	case !ok:
		return "14"
	case minor > in.minor:
		return "30"
	}
	in.status = "S"
	return "00"
}

func (s *Sim) wrap(merchant string, document []byte) ([]byte, error) {
	key := s.keys[merchant]
	if key == nil {
		return nil, errors.New("the merchant has no key")
	}
	encrypter, err := jose.NewEncrypter(jose.A256GCM, jose.Recipient{Algorithm: jose.RSA_OAEP, Key: key}, nil)
	if err != nil {
		return nil, err
	}
	sealed, err := encrypter.Encrypt(document)
	if err != nil {
		return nil, err
	}
	inner, err := sealed.CompactSerialize()
	if err != nil {
		return nil, err
	}
	signing := s.key
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.PS256, Key: signing}, nil)
	if err != nil {
		return nil, err
	}
	signed, err := signer.Sign([]byte(inner))
	if err != nil {
		return nil, err
	}
	outer, err := signed.CompactSerialize()
	return []byte(outer), err
}

// unwrap returns the document and the merchant whose key signed it.
func (s *Sim) unwrap(body []byte) ([]byte, string) {
	signed, err := jose.ParseSignedCompact(strings.TrimSpace(string(body)), []jose.SignatureAlgorithm{jose.PS256})
	if err != nil {
		return nil, ""
	}
	for id, key := range s.keys {
		inner, err := signed.Verify(key)
		if err != nil {
			continue
		}
		sealed, err := jose.ParseEncryptedCompact(string(inner), []jose.KeyAlgorithm{jose.RSA_OAEP}, []jose.ContentEncryption{jose.A256GCM})
		if err != nil {
			return nil, ""
		}
		document, err := sealed.Decrypt(s.key)
		if err != nil {
			return nil, ""
		}
		return document, id
	}
	return nil, ""
}

// GenerateKeys makes a pair of RSA keys in PEM, for one side of the maintenance API.
func GenerateKeys() (private secret.Value, public string, err error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return secret.Value{}, "", err
	}
	own, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return secret.Value{}, "", err
	}
	shown, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return secret.Value{}, "", err
	}
	return secret.New(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: own}))),
		string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: shown})), nil
}

func parsePrivate(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("the 2C2P simulator's private key is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the 2C2P simulator's private key is not PKCS #8")
	}
	own, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("the 2C2P simulator's private key is not RSA")
	}
	return own, nil
}

func parsePublic(text string) (*rsa.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("a merchant's public key at the 2C2P simulator is not PEM")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, errors.New("a merchant's public key at the 2C2P simulator is not PKIX")
	}
	shown, ok := key.(*rsa.PublicKey)
	if !ok {
		return nil, errors.New("a merchant's public key at the 2C2P simulator is not RSA")
	}
	return shown, nil
}
