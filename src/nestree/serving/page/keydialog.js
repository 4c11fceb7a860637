// The question for a key.

import { byId } from "./elements.js";

const SENDABLE = /^[\x20-\x7e]+$/; // others cannot stand in a header, and are no keys of ours
const REFUSED = "The service does not know that key, or not any more. Try another one.";
const UNSENDABLE = "A key has letters, digits and signs of ASCII alone. Was it copied as it is?";

const usual = byId("key-message").textContent;

/** A key, or null if there is none to be had; `refused`: whether there was one that the service did not take. */
export function askForKey(refused) {
  const [dialog, field, message] = [byId("key-dialog"), byId("key"), byId("key-message")];
  message.textContent = refused ? REFUSED : usual;
  dialog.showModal();
  return new Promise((resolve) => {
    let given = null;
    byId("key-form").onsubmit = (event) => {
      event.preventDefault();
      const key = field.value.trim();
      if (SENDABLE.test(key)) {
        given = key;
        dialog.close();
      } else message.textContent = UNSENDABLE;
    };
    byId("key-cancel").onclick = () => dialog.close();
    dialog.onclose = () => {
      field.value = "";
      resolve(given);
    };
  });
}
