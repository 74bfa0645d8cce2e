import { filterAllows, filtersAny } from '../../catalog/catalog-member.ts';
import { isLoginTool } from '../../catalog/login-catalog.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { OfferPolicy, PolicyFactory } from './policy.ts';

/** The operator's filter of a server's tools (`includeTools`, `excludeTools`). */
export const toolFilter: PolicyFactory<OfferPolicy> = ({ name: server, tools }) => {
  if (!filtersAny(tools)) return null;
  return (item) => {
    if (item.kind !== 'tool') return null;
    const { name } = item;
    if (typeof name !== 'string') return name;
    return filterAllows(tools, name) || isLoginTool(item.catalog, name)
      ? null
      : new GatewayError('INVALID_PARAMS', `Unknown tool: ${name}`, { server });
  };
};
