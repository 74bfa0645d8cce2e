import type { Exchange } from '../model/exchange.ts';

type OwnMembers = { -readonly [Name in keyof Exchange]?: Exchange[Name] };

/**
 * An exchange for a request that the gateway sends while it serves `outer`. It has its own target and the members in `own`,
 * which the caller may change later. All other members are the ones of `outer`, for reading and writing: what the parts that
 * send the request note (`sentAt`, `servedBy`, `attempts`, `found`) is in the record of `outer`, and no member is forgotten.
 */
export function innerExchange(outer: Exchange, own: OwnMembers): Exchange {
  // The record of `outer` keeps the name of what the client asked for.
  own.target = undefined;
  // Not read from `outer`: a method of its class would run with the proxy as `this`, which has no private members.
  own.emit ??= (notification, flow) => outer.emit(notification, flow);
  own.ask ??= (request, likely) => outer.ask(request, likely);
  const holder = (name: PropertyKey) => (Object.hasOwn(own, name) ? own : outer);
  return new Proxy(outer, {
    get: (_outer, name) => Reflect.get(holder(name), name),
    set: (_outer, name, value) => Reflect.set(holder(name), name, value),
  });
}
