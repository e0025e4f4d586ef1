package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// keyVariable names the environment variable with the armored private key that signs checksums. keyFileVariable names one with its file.
const (
	keyVariable        = "RELEASE_SIGNING_KEY"
	keyFileVariable    = "RELEASE_SIGNING_KEY_FILE"
	passphraseVariable = "RELEASE_SIGNING_PASSPHRASE"
)

// signingKey reads the key from the environment. It returns nil if there is none.
func signingKey() (*openpgp.Entity, error) {
	armored := []byte(os.Getenv(keyVariable))
	if file := os.Getenv(keyFileVariable); file != "" {
		var err error
		if armored, err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	if len(armored) == 0 {
		return nil, nil
	}
	keys, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(armored))
	if err != nil {
		return nil, fmt.Errorf("read the signing key: %w", err)
	}
	key := keys[0]
	if key.PrivateKey == nil {
		return nil, errors.New("the signing key has no private part")
	}
	if key.PrivateKey.Encrypted {
		if err := key.DecryptPrivateKeys([]byte(os.Getenv(passphraseVariable))); err != nil {
			return nil, fmt.Errorf("decrypt the signing key with %s: %w", passphraseVariable, err)
		}
	}
	return key, nil
}

// sign writes a detached signature of a file beside it, not armored, as registries of Terraform providers want it.
func sign(file string, key *openpgp.Entity) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var signature bytes.Buffer
	if err := openpgp.DetachSign(&signature, key, bytes.NewReader(content), nil); err != nil {
		return fmt.Errorf("sign %s: %w", file, err)
	}
	return os.WriteFile(file+".sig", signature.Bytes(), 0o644)
}
