package subprocess

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// CheckReady returns an error unless the health server of a component of Breakwater at host:port answers that it is ready.
func CheckReady(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return CheckURL(ctx, http.DefaultClient, "http://"+address+"/readyz")
}

// CheckURL returns an error unless a server answers a request with 200.
func CheckURL(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<10))
	if err != nil {
		return err
	}
	return fmt.Errorf("%s answers %s: %s", url, response.Status, bytes.TrimSpace(body))
}
