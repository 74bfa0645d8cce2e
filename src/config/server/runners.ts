/** Programs that run another program. */
export const RUNNERS =
  /^(?:npx|pnpx|bunx|uvx|pipx|npm|pnpm|yarn|bun|node|deno|python3?|uv|docker|podman|sh|bash)(?:\.cmd|\.exe)?$/;
