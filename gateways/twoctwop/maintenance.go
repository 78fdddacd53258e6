package twoctwop

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/url"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"orderflow/gateways"
	"orderflow/gateways/shared"
)

// Addresses of the maintenance (Payment Action) API. Indonesia's accounts have another: set it.
const (
	maintenanceSandbox    = "https://demo2.2c2p.com/2C2PFrontend/PaymentAction/2.0/action"
	maintenanceProduction = "https://t.2c2p.com/PaymentAction/2.0/action"
)

// maintenance holds what the maintenance API needs beside the gateway's own settings: its messages are encrypted to the
// receiver and signed by the sender, so both sides have a pair of RSA keys.
type maintenance struct {
	address string
	own     *rsa.PrivateKey
	theirs  *rsa.PublicKey
}

// openMaintenance reads the keys; without any of the three settings the maintenance API is off.
func openMaintenance(s gateways.Settings, env gateways.Environment) (*maintenance, error) {
	if s.MaintenanceURL == "" && s.PrivateKey.IsZero() && s.ProviderKey == "" {
		return nil, nil
	}
	if s.PrivateKey.IsZero() || s.ProviderKey == "" {
		return nil, errors.New("2c2p: the maintenance API needs both TWOCTWOP_PRIVATE_KEY (ours) and TWOCTWOP_PROVIDER_KEY (2C2P's public key), as PEM")
	}
	own, err := privateKey(s.PrivateKey.Reveal())
	if err != nil {
		return nil, err
	}
	theirs, err := publicKey(s.ProviderKey)
	if err != nil {
		return nil, err
	}
	address := s.MaintenanceURL
	if address == "" {
		address = maintenanceSandbox
		if env == gateways.Live {
			address = maintenanceProduction
		}
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || (u.Scheme != "https" && u.Scheme != "http"):
		return nil, errors.New("2c2p: the maintenance URL must be a plain URL such as https://t.2c2p.com/PaymentAction/2.0/action")
	case u.Scheme == "http" && (strings.HasSuffix(u.Hostname(), ".2c2p.com") || (env == gateways.Live && !shared.Loopback(u.Hostname()))):
		return nil, errors.New("2c2p: the maintenance API is reached over https only: change the maintenance URL")
	}
	return &maintenance{address: address, own: own, theirs: theirs}, nil
}

var (
	errPrivateKey = errors.New("2c2p: TWOCTWOP_PRIVATE_KEY must be an RSA private key of at least 2048 bits in PEM (PKCS #8 or PKCS #1)")
	errPublicKey  = errors.New("2c2p: TWOCTWOP_PROVIDER_KEY must be an RSA public key or certificate of at least 2048 bits in PEM")
)

const minimumBits = 2048

func privateKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errPrivateKey
	}
	var key *rsa.PrivateKey
	if parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		key, _ = parsed.(*rsa.PrivateKey)
	} else if key, err = x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
		return nil, errPrivateKey
	}
	if key == nil || key.N.BitLen() < minimumBits {
		return nil, errPrivateKey
	}
	return key, nil
}

func publicKey(text string) (*rsa.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errPublicKey
	}
	var key *rsa.PublicKey
	if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
		key, _ = cert.PublicKey.(*rsa.PublicKey)
	} else if parsed, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
		key, _ = parsed.(*rsa.PublicKey)
	} else if key, err = x509.ParsePKCS1PublicKey(block.Bytes); err != nil {
		return nil, errPublicKey
	}
	if key == nil || key.N.BitLen() < minimumBits {
		return nil, errPublicKey
	}
	return key, nil
}

// The algorithms are fixed both ways, like the payment API's.
const (
	keyWrap   = jose.RSA_OAEP
	contents  = jose.A256GCM
	signature = jose.PS256
)

// wrap encrypts to 2C2P and signs with our key.
func (m *maintenance) wrap(document []byte) ([]byte, error) {
	encrypter, err := jose.NewEncrypter(contents, jose.Recipient{Algorithm: keyWrap, Key: m.theirs}, nil)
	if err != nil {
		return nil, shared.ErrNoAnswer
	}
	sealed, err := encrypter.Encrypt(document)
	if err != nil {
		return nil, shared.ErrNoAnswer
	}
	inner, err := sealed.CompactSerialize()
	if err != nil {
		return nil, shared.ErrNoAnswer
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: signature, Key: m.own}, nil)
	if err != nil {
		return nil, shared.ErrNoAnswer
	}
	signed, err := signer.Sign([]byte(inner))
	if err != nil {
		return nil, shared.ErrNoAnswer
	}
	outer, err := signed.CompactSerialize()
	return []byte(outer), err
}

// unwrap verifies 2C2P's signature and decrypts with our key.
func (m *maintenance) unwrap(body []byte) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(strings.TrimSpace(string(body)), []jose.SignatureAlgorithm{signature})
	if err != nil {
		return nil, errUnsigned
	}
	inner, err := signed.Verify(m.theirs)
	if err != nil {
		return nil, errSignature
	}
	sealed, err := jose.ParseEncryptedCompact(string(inner), []jose.KeyAlgorithm{keyWrap}, []jose.ContentEncryption{contents})
	if err != nil {
		return nil, shared.ErrNoAnswer
	}
	document, err := sealed.Decrypt(m.own)
	if err != nil {
		return nil, shared.ErrNoAnswer
	}
	return document, nil
}
