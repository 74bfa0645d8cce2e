// A server of github.com/mark3labs/mcp-go, which matches the keys of JSON regardless of case: over stdio, or over Streamable
// HTTP at the address that it is given.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

var waiting atomic.Int32

func main() {
	served := server.NewMCPServer("go-mark3labs", "1", server.WithToolCapabilities(true), server.WithElicitation())
	add := func(name string, handler server.ToolHandlerFunc) { served.AddTool(mcp.NewTool(name), handler) }
	says := func(text string) server.ToolHandlerFunc {
		return func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(text), nil
		}
	}
	add("echo", func(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, err := json.Marshal(request.GetRawArguments())
		return mcp.NewToolResultText(string(text)), err
	})
	add("secret", says("the secret tool ran"))
	add("progress", func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for step := 1; step <= 2; step++ {
			params := map[string]any{"progressToken": request.Params.Meta.ProgressToken, "progress": step, "total": 2}
			if err := served.SendNotificationToClient(ctx, "notifications/progress", params); err != nil {
				return nil, err
			}
		}
		// Over stdio the answer would overtake what another goroutine writes.
		time.Sleep(200 * time.Millisecond)
		return mcp.NewToolResultText("done"), nil
	})
	add("wait", func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		waiting.Add(1)
		defer waiting.Add(-1)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	add("waiting", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(fmt.Sprint(waiting.Load())), nil
	})
	add("grow", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		add("grown", says("grown"))
		return mcp.NewToolResultText("grows"), nil
	})
	if len(os.Args) < 2 {
		if err := server.ServeStdio(served); err != nil {
			log.Fatal(err)
		}
		return
	}
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, server.NewStreamableHTTPServer(served)))
}
