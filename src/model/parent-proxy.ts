/**
 * Part of a script that runs before an MCP App. It replaces the window's parent (`real`) with a proxy that sends through `post`.
 * Properties that no window has are undefined on the proxy: a cross-origin parent throws, and frameworks (Vue) look for
 * properties of their own.
 */
export const PARENT_PROXY_SCRIPT = `const seeming = new Proxy({}, {
    get: (_, key) => {
      if (key === "postMessage") return post;
      if (!(key in window)) return undefined;
      const value = real[key];
      return typeof value === "function" ? value.bind(real) : value;
    },
  });
  Object.defineProperty(window, "parent", { value: seeming, configurable: true, writable: true });
  const source = Object.getOwnPropertyDescriptor(MessageEvent.prototype, "source");
  Object.defineProperty(MessageEvent.prototype, "source", {
    ...source,
    get() {
      const from = source.get.call(this);
      return from === real ? seeming : from;
    },
  });`;
