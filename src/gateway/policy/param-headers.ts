import { toolFacts } from '../../catalog/exposed-items.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { bodyField } from '../../protocol/body.ts';
import { paramHeadersFault } from '../../protocol/headers.ts';
import { listIsStale } from '../../protocol/list-freshness.ts';
import { isStarted } from '../known-servers.ts';
import { type PolicyFactory, UNDECIDED } from './policy.ts';

/**
 * Whether the `Mcp-Param-*` headers of a stateless call say what its body says (proto:H1): what routes or decides on
 * headers must be able to rely on that. The client may have read a newer declaration than the gateway: before it is
 * refused, a list whose time has run out is fetched again (H6).
 */
export const paramHeaders: PolicyFactory = ({ name: server }, { upstreams, clock }) => {
  return (target, exchange) => {
    const { request, paramHeaders: sent } = exchange;
    if (sent == null || request.era === 'stateful' || target.kind !== 'tool') return null;
    if (target.catalog === null) return target.asked ? null : UNDECIDED;
    const tool = target.definition;
    if (tool === null) return null;
    const { headers } = toolFacts(tool);
    if (!headers.ok || headers.declared.length === 0) return null;
    const fault = paramHeadersFault(headers.declared, sent, request.bytes, bodyField(request, 'arguments'));
    if (fault === null) return null;
    const stale = listIsStale(target.catalog, 'tools', clock.wall()) && isStarted(upstreams, server);
    return stale && !target.asked ? UNDECIDED : new GatewayError('HEADER_MISMATCH', `Header mismatch: ${fault}`);
  };
};
