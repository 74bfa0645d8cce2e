import type { Gateway } from './gateway-api.ts';
import type { GatewayOptions } from './gateway-options.ts';
import { openGateway } from './open-gateway.ts';

/**
 * Opens a gateway inside this program (S2.25). Resolves as soon as calls can be made; servers that start by themselves
 * are starting then (`Gateway.ready` waits for them). Rejects with ConfigError, OpenError, or GatewayError for an
 * in-process server's name; nothing is left behind.
 *
 * ```ts
 * await using gateway = await createGateway({ servers: { files: { command: 'npx', args: ['-y', '…'] } } });
 * const result = await gateway.callTool('files__read_text_file', { path: 'README.md' });
 * ```
 */
export async function createGateway(options: GatewayOptions = {}): Promise<Gateway> {
  return await openGateway(options);
}
