package proxy_test

import (
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// TestMain fails if goroutines of the package still run some time after the tests have closed all proxies.
func TestMain(m *testing.M) {
	code := m.Run()
	var stacks strings.Builder
	for range 50 {
		stacks.Reset()
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
		if !strings.Contains(stacks.String(), "federation/proxy.") {
			os.Exit(code)
		}
		<-time.After(20 * time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, "Goroutines of proxies still run:\n"+stacks.String())
	os.Exit(1)
}
