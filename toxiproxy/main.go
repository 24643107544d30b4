// Command toxiproxy is Shopify's Toxiproxy server with this project's own toxics registered.
//
// The API is the stock one. What is added is in registerToxics.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"kafka-spark-chaos/toxiproxy/kafka"
)

func main() {
	host := flag.String("host", "127.0.0.1", "address of the API; a loopback address")
	port := flag.String("port", "8474", "port of the API")
	anywhere := flag.Bool("allow-non-loopback", false, "listen on other addresses too, as inside a container's own network")
	flag.Parse()
	if !*anywhere && !isLoopback(*host) {
		fail(fmt.Errorf("%s is not a loopback address; -allow-non-loopback permits it", *host))
	}
	if err := serve(net.JoinHostPort(*host, *port)); err != nil {
		fail(err)
	}
}

// registerToxics is where the toxics of this project are added to the stock ones.
func registerToxics() {
	toxics.Register("kafka", new(kafka.Toxic))
	toxics.Register("delay", new(Delay))
	toxics.Register("blackhole", new(Blackhole))
	toxics.Register("cut_after", new(CutAfter))
}

// serve returns when the server was told to end, by SIGINT or SIGTERM, or could not listen.
func serve(address string) error {
	registerToxics()
	logger := zerolog.New(os.Stdout).Level(zerolog.WarnLevel).With().Timestamp().Logger()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), logger)
	ended := make(chan error, 1)
	go func() { ended <- server.Listen(address) }()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM)
	select {
	case err := <-ended:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	case <-asked:
		return server.Shutdown()
	}
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "toxiproxy:", err)
	os.Exit(1)
}
