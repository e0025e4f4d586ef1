package oidc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Cookie is the name of the cookie of a sign-in that is under way. Browsers accept it only over TLS, and only for this host.
const Cookie = "__Host-breakwater-oidc"

// sealer encrypts and authenticates the content of cookies with a key that exists only in this process.
type sealer struct{ aead cipher.AEAD }

func newSealer() (*sealer, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &sealer{aead}, err
}

func (s *sealer) seal(content any) (string, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("encode a cookie: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, text, []byte(Cookie))), nil
}

func (s *sealer) open(value string, content any) error {
	sealed, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return errors.New("the cookie is damaged")
	}
	text, err := s.aead.Open(nil, nil, sealed, []byte(Cookie))
	if err != nil {
		return errors.New("the cookie is not one of this console, or the console has restarted")
	}
	return json.Unmarshal(text, content)
}

// NoCookie returns a cookie that deletes that of a sign-in.
func NoCookie() *http.Cookie { return newCookie("", -1) }

// newCookie returns the cookie of a sign-in. The provider's answer comes from another site, so it cannot be SameSite=Strict.
func newCookie(value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: Cookie, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}
