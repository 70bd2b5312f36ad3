// Browsers refuse workers to pages opened from disk; there the search runs in a hidden frame of the page instead.
// Messages are copied and arrive later, as a worker's do: an answer within the keystroke would empty the input field.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.documentElement.append(frame);
      this.scope = frame.contentWindow;
      this.scope.postMessage = (data) => this.answer(data);
      this.scope.importScripts = (...urls) => Promise.all(urls.map((each) => this.load(each)));
      this.ready = this.load(url);
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.scope.document.createElement("script");
        script.src = new URL(url, location.href);
        script.onload = resolve;
        script.onerror = reject;
        this.scope.document.body.append(script);
      });
    }

    answer(data) {
      const message = new MessageEvent("message", { data: structuredClone(data) });
      setTimeout(() => {
        this.dispatchEvent(message);
        this.onmessage?.(message);
      });
    }

    postMessage(data) {
      const copy = structuredClone(data);
      this.ready.then(() =>
        setTimeout(() => this.scope.dispatchEvent(new this.scope.MessageEvent("message", { data: copy }))),
      );
    }

    terminate() {
      this.scope.frameElement.remove();
    }
  };
}
