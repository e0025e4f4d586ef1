package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"time"
)

const (
	// connectTimeout bounds each step until a site begins to send: without a network, building begins seconds later.
	connectTimeout = 5 * time.Second
	// stallTimeout is how long a site may send nothing.
	stallTimeout = 20 * time.Second
)

// client downloads files.
type client struct {
	mirror string // empty: the sites themselves
	http   *http.Client
	stall  time.Duration
}

func newClient(mirror string) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	transport.TLSHandshakeTimeout, transport.ResponseHeaderTimeout = connectTimeout, connectTimeout
	return &client{mirror: strings.TrimSuffix(mirror, "/"), http: &http.Client{Transport: transport}, stall: stallTimeout}
}

// address returns where a file is downloaded from.
func (c *client) address(url string) string {
	if c.mirror == "" {
		return url
	}
	return c.mirror + "/" + strings.TrimPrefix(url, "https://")
}

// download writes a file, and returns its SHA-256 sum in hexadecimal.
func (c *client) download(ctx context.Context, url string, to io.Writer) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address(url), nil)
	if err != nil {
		return "", err
	}
	response, err := c.http.Do(request) //nolint:bodyclose // the linter does not see the Close below
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", c.address(url), response.Status)
	}
	fmt.Fprintf(os.Stderr, "    %s: %s\n", path.Base(url), size(response.ContentLength))
	stalled := time.AfterFunc(c.stall, func() { cancel(fmt.Errorf("no data for %s", c.stall)) })
	defer stalled.Stop()
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(to, sum), readerFunc(func(b []byte) (int, error) {
		stalled.Reset(c.stall)
		return response.Body.Read(b)
	}))
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.address(url), err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// size returns a number of bytes as text. A site may not send it: it is -1 then.
func size(bytes int64) string {
	if bytes < 0 {
		return "unknown size"
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
