import type { StdioStreams } from '../downstream/stdio/stdio.ts';
import { StdioBridge } from '../downstream/stdio/stdio-bridge.ts';
import { openHttpClient } from '../http/client/open-http-client.ts';
import type { ProxyEnvironment } from '../http/client/proxy-choice.ts';
import { systemClock } from '../model/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

export interface BridgeOptions {
  /** URL of the MCP endpoint of the running gateway. */
  readonly url: string;
  readonly env: ProxyEnvironment;
  /** The agent's key, if the gateway has agents. */
  readonly key: string | undefined;
  readonly logger: Logger;
}

/** Limit of one line from a local client; the gateway has its own limit. */
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

/** Connects a client on a pair of streams to a running gateway. */
export function bridgeStdio(streams: StdioStreams, options: BridgeOptions): Pick<StdioBridge, 'closed' | 'drain'> {
  const url = new URL(options.url);
  return new StdioBridge(streams, {
    client: openHttpClient(url, { env: options.env }),
    path: url.pathname,
    headers: options.key === undefined ? [] : ['Authorization', `Bearer ${options.key}`],
    clock: systemClock,
    logger: options.logger,
    maxMessageBytes: MAX_MESSAGE_BYTES,
  });
}
