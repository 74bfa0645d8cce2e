import { toolFacts } from '../../catalog/exposed-items.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Capability } from '../../model/server-catalog.ts';
import { bodyField } from '../../protocol/body.ts';
import { paramHeadersFault } from '../../protocol/param-headers.ts';

/**
 * Whether the `Mcp-Param-*` headers of a stateless call say what its body says (proto:H1): whoever routes or
 * decides on headers must be able to rely on that. Nothing to check where the wire has no headers.
 */
export function refuseParamHeaders(tool: Capability, exchange: Exchange): GatewayError | null {
  const { request } = exchange;
  if (request.era === 'stateful') return null;
  const { headers } = toolFacts(tool);
  if (!headers.ok || headers.declared.length === 0) return null;
  const sent = exchange.paramHeaders;
  if (sent === undefined || sent === null) return null;
  const args = bodyField(request, 'arguments');
  const fault = paramHeadersFault(headers.declared, sent, request.bytes, args);
  return fault === null ? null : new GatewayError('HEADER_MISMATCH', `Header mismatch: ${fault}`);
}
