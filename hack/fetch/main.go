// Command fetch downloads released programs of a module of hack/tools, so that hack/tools/install need not build them for minutes. It uses
// only programs whose SHA-256 sum hack/tools/sums pins.
//
//	fetch MODULE FOLDER   downloads the programs of a module to a folder
//	fetch -update         replaces the pinned sums by those of the versions in hack/tools (make tool-sums)
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// mirrorVariable names the environment variable with the address of a server that has https://HOST/PATH at /HOST/PATH. "off" disables
// downloads. A mirror needs no trust: the sums are pinned.
const mirrorVariable = "BREAKWATER_RELEASES"

func main() {
	update := flag.Bool("update", false, "replace the pinned sums")
	flag.Parse()
	if err := run(*update, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "    not downloaded:", err)
		os.Exit(1)
	}
}

func run(update bool, arguments []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	const tools = "hack/tools"
	mirror := os.Getenv(mirrorVariable)
	c := newClient(mirror)
	switch {
	case mirror == "off":
		return fmt.Errorf("%s is off", mirrorVariable)
	case update && len(arguments) == 0:
		return updateSums(ctx, c, tools)
	case update || len(arguments) != 2:
		return errors.New("want the arguments MODULE and FOLDER, or -update")
	}
	return fetchModule(ctx, c, tools, arguments[0], runtime.GOOS+"/"+runtime.GOARCH, arguments[1])
}
