import { misdeclared, toolFacts } from '../../catalog/exposed-items.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { bodyField } from '../../protocol/body.ts';
import { paramHeadersFault } from '../../protocol/headers.ts';
import { listIsStale } from '../../protocol/list-freshness.ts';
import { isStarted, mirrors } from '../known-servers.ts';
import { type PolicyFactory, UNDECIDED } from './policy.ts';

/**
 * Checks that the `Mcp-Param-*` headers of a stateless call match its body (proto:H1), so that other components can rely on
 * them. The client may have a newer declaration than the gateway: an expired list is fetched again before the call is refused
 * (H6). A tool that is not listed because its declaration is invalid cannot be called.
 */
export const paramHeaders: PolicyFactory = (server, { upstreams, clock }) => {
  const invalid = (tool: string, reason: string): GatewayError =>
    new GatewayError('INVALID_PARAMS', `The tool '${tool}' has an invalid x-mcp-header: ${reason}`, {
      server: server.name,
    });
  return (target, exchange) => {
    if (target.kind !== 'tool') return null;
    const { catalog } = target;
    const { request, paramHeaders: sent } = exchange;
    const stateless = request.era === 'stateless';
    if (catalog === null) return !stateless || sent == null || target.listed ? null : UNDECIDED;
    const tool = target.definition;
    if (tool === null) {
      const { name } = target;
      const reason = mirrors(server, catalog.handshake.era) ? misdeclared(catalog).get(String(name)) : undefined;
      return reason === undefined ? null : invalid(String(name), reason);
    }
    if (!stateless) return null;
    const { headers } = toolFacts(tool);
    if (!headers.ok) return invalid(tool.key, headers.reason);
    if (sent == null || headers.declared.length === 0) return null;
    const fault = paramHeadersFault(headers.declared, sent, request.bytes, bodyField(request, 'arguments'));
    if (fault === null) return null;
    const stale = listIsStale(catalog, 'tools', clock.wall()) && isStarted(upstreams, server.name, exchange.client);
    return stale && !target.listed ? UNDECIDED : new GatewayError('HEADER_MISMATCH', `Header mismatch: ${fault}`);
  };
};
