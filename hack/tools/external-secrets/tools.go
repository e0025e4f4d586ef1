//go:build tools

// Package tools pins the CRDs of External Secrets, against which the tests check the example in clusters/. It has no program.
package tools

import _ "github.com/external-secrets/external-secrets/apis/externalsecrets/v1"
